#include "machined/platforms/readers/readers.h"

#include "common/base/lines.h"
#include "common/text/ascii.h"

namespace talos::platforms {
namespace {

struct Reader {
  const Platform& platform;
  void (*read)(const Answers& answers, PlatformFacts& facts);
};
const Reader kReaders[] = {
    {kAkamai, readAkamai},
    {kAws, readAws},
    {kAzure, readAzure},
    {kCloudstack, readCloudstack},
    {kDigitalOcean, readDigitalOcean},
    {kEquinixMetal, readEquinixMetal},
    {kExoscale, readExoscale},
    {kGcp, readGcp},
    {kHetzner, readHetzner},
    {kNocloud, readNocloud},
    {kOpennebula, readOpennebula},
    {kOpenstack, readOpenstack},
    {kOracle, readOracle},
    {kScaleway, readScaleway},
    {kUpcloud, readUpcloud},
    {kVmware, readVmware},
    {kVultr, readVultr},
};

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
  return kj::heapString(trimmed(first));
}

void read(const Platform& platform, const Answers& answers, PlatformFacts& facts) {
  for (auto& reader : kReaders) {
    if (&reader.platform != &platform) continue;
    facts.platform = kj::str(platform.name);
    return reader.read(answers, facts);
  }
}

}  // namespace talos::platforms
