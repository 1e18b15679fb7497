"""How far attribution is from the truth of an emulated GPU: mixes of processes, recordings, errors."""
