// User data for cloud-init.
#pragma once

#include <kj/array.h>

namespace talos::platforms {

// True for what begins with "#cloud-config", which is no machine config.
bool isCloudConfig(kj::ArrayPtr<const char> userData);

}  // namespace talos::platforms
