from gpu_report.quick import Profile as Profile
from gpu_report.quick import profile as profile
from gpu_report.watching import step as step
from gpu_report.watching import watch as watch

__version__: str
