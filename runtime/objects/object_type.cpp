#include "runtime/objects/object_type.hpp"

namespace memopd::detail {

MEMOPD_OBJECT_CODECS()

}  // namespace memopd::detail
