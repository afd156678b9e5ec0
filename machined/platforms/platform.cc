#include "machined/platforms/platform.h"

namespace talos::platforms {
namespace {

constexpr const Platform* kAll[] = {
    &kAkamai,   &kAws,      &kAzure,   &kCloudstack, &kDigitalOcean, &kEquinixMetal,
    &kExoscale, &kGcp,      &kHetzner, &kNocloud,    &kOpennebula,   &kOpenstack,
    &kOracle,   &kScaleway, &kUpcloud, &kVmware,     &kVultr};

}  // namespace

kj::ArrayPtr<const Platform* const> all() {
  return kAll;
}

kj::Maybe<const Platform&> called(kj::StringPtr name) {
  if (name == "packet") name = kEquinixMetal.name;
  for (auto* platform : kAll) {
    if (platform->name == name) return *platform;
  }
  return nullptr;
}

kj::Maybe<kj::String> nameProblem(kj::StringPtr name) {
  if (name == kMetal || name == kContainer || called(name) != nullptr) return nullptr;
  auto names = KJ_MAP(platform, all()) {
    return platform->name;
  };
  return kj::str("talos.platform=", name, " is not a platform; use one of ", kMetal, ", ",
                 kj::strArray(names, ", "));
}

kj::Maybe<const Platform&> recognized(const Firmware& firmware) {
  kj::Maybe<const Platform&> found;
  for (auto* platform : kAll) {
    if (platform->matches == nullptr || !platform->matches(firmware)) continue;
    if (found != nullptr) return nullptr;
    found = *platform;
  }
  return found;
}

}  // namespace talos::platforms
