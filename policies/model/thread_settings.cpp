#include "policies/model/thread_settings.hpp"

#include <ATen/Parallel.h>

namespace memopd {

void set_operation_threads(int num_threads) { at::set_num_threads(num_threads); }

}  // namespace memopd
