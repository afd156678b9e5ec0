// User data for cloud-init.
#pragma once

#include <kj/string.h>

namespace talos::platforms {

// Returns true for user data that begins with "#cloud-config", which is not a machine config.
inline bool isCloudConfig(kj::ArrayPtr<const char> userData) {
  constexpr kj::StringPtr kStart = "#cloud-config"_kj;
  return userData.size() >= kStart.size() && userData.slice(0, kStart.size()) == kStart.asArray();
}

}  // namespace talos::platforms
