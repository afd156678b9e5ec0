#include "machined/config/trust/debug-lifetime.h"

#include "common/net/text-values.h"

namespace talos::machined {

constexpr kj::StringPtr kArgument = "talos.debug.certificates"_kj;

kj::Duration certificateLifetime(const KernelArguments& arguments, kj::StringPtr platform,
                                 kj::Duration usual, kj::FunctionParam<void(kj::StringPtr)> warn) {
  if (platform != "container") return usual;
  KJ_IF_MAYBE (text, arguments.first(kArgument)) {
    KJ_IF_MAYBE (given, config::parseDuration(*text)) {
      if (*given >= 1 * kj::MINUTES && *given <= usual) return *given;
    }
    warn(kj::str(kArgument, ": \"", *text, "\" is not a duration from 1m to ", usual / kj::HOURS,
                 "h; certificates have their usual lifetime"));
  }
  return usual;
}

}  // namespace talos::machined
