"""Price exports of the clouds, and a simple CSV, as a price list in YAML."""

from gpuledger.pricing.imports.formats import FORMATS, read_export
from gpuledger.pricing.imports.offers import BadRow, Offer, Offers
from gpuledger.pricing.imports.yaml_text import as_yaml

__all__ = ["FORMATS", "BadRow", "Offer", "Offers", "as_yaml", "read_export"]
