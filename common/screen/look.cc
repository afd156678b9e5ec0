#include "common/screen/look.h"

#include <kj/debug.h>

namespace talos {

kj::StringPtr renditionOf(Look look, Colors colors) {
  bool colored = colors == Colors::kAnsi;
  switch (look) {
    case Look::kPlain:
      return "\x1b[0m";
    case Look::kTitle:
      return "\x1b[0;1m";
    case Look::kDim:
      return colored ? "\x1b[0;90m"_kj : "\x1b[0m"_kj;
    case Look::kGood:
      return colored ? "\x1b[0;32m"_kj : "\x1b[0m"_kj;
    case Look::kWarning:
      return colored ? "\x1b[0;33m"_kj : "\x1b[0;1m"_kj;
    case Look::kBad:
      return colored ? "\x1b[0;1;31m"_kj : "\x1b[0;1m"_kj;
    case Look::kAccent:
      return colored ? "\x1b[0;36m"_kj : "\x1b[0m"_kj;
    case Look::kSelected:
      return "\x1b[0;7m";
  }
  KJ_UNREACHABLE;
}

}  // namespace talos
