"""History as files: every input topic, byte for byte, in a directory or an object store.

``Archiver`` copies, ``ArchiveLog`` reads back as if it were Kafka, ``verify`` and ``compact`` keep it sound.
The manifest alone says what belongs to the archive: a file that it does not name is not there.
"""
