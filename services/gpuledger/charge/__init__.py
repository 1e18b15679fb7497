"""The core over files: who pays for GPUs by a scrape, a listing and a price, without any service."""
