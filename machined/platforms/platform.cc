#include "machined/platforms/platform.h"

#include "common/base/lines.h"

namespace talos::platforms {
namespace {

constexpr const Platform* kAll[] = {
    &kAkamai,   &kAws,      &kAzure,   &kCloudstack, &kDigitalOcean, &kEquinixMetal,
    &kExoscale, &kGcp,      &kHetzner, &kNocloud,    &kOpennebula,   &kOpenstack,
    &kOracle,   &kScaleway, &kUpcloud, &kVmware,     &kVultr};

bool isBlank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

}  // namespace

void Answers::add(kj::StringPtr name, kj::Array<char> body) {
  all.add(Answer{kj::str(name), kj::mv(body)});
}

bool Answers::has(kj::StringPtr name) const {
  return bytes(name).size() > 0;
}

kj::ArrayPtr<const char> Answers::bytes(kj::StringPtr name) const {
  for (auto& answer : all) {
    if (answer.name == name) return answer.body;
  }
  return nullptr;
}

kj::String Answers::line(kj::StringPtr name) const {
  auto first = firstLine(bytes(name));
  kj::ArrayPtr<const char> line = first;
  while (line.size() > 0 && isBlank(line.front())) line = line.slice(1, line.size());
  while (line.size() > 0 && isBlank(line.back())) line = line.slice(0, line.size() - 1);
  return kj::heapString(line.begin(), line.size());
}

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
