from gpu_report.user_training.batch_size import BatchSizes as BatchSizes
from gpu_report.user_training.batch_size import find_batch_size as find_batch_size
from gpu_report.user_training.option_gains import OptionGains as OptionGains
from gpu_report.user_training.option_gains import compare_options as compare_options
from gpu_report.user_training.profile import Profile as Profile
from gpu_report.user_training.profile import profile as profile
from gpu_report.user_training.trace import TraceAnalysis as TraceAnalysis
from gpu_report.user_training.trace import trace as trace
from gpu_report.user_training.watching import step as step
from gpu_report.user_training.watching import watch as watch

__version__: str
_MODULES: dict[str, str]
