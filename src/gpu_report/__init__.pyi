from gpu_report.quick import Profile as Profile
from gpu_report.quick import profile as profile

__version__: str
