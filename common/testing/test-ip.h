// Addresses from their text, for tests.
#pragma once

#include <kj/debug.h>

#include "common/net/ip.h"

namespace talos {

inline Ip ip(kj::StringPtr text) {
  return KJ_ASSERT_NONNULL(Ip::parse(text), text);
}
inline Prefix prefix(kj::StringPtr text) {
  return KJ_ASSERT_NONNULL(Prefix::parse(text), text);
}

}  // namespace talos
