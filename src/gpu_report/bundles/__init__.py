"""One machine's records and trace tables in one file, which another machine makes the same report
from.

manifest: what a bundle says of itself; packing, unpacking: from and to folders, read with suspicion
"""
