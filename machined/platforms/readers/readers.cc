#include "machined/platforms/readers/readers.h"

#include <kj/debug.h>

#include "common/base/lines.h"

namespace talos::platforms {
namespace {

bool isBlank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

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
  kj::ArrayPtr<const char> line = first;
  while (line.size() > 0 && isBlank(line.front())) line = line.slice(1, line.size());
  while (line.size() > 0 && isBlank(line.back())) line = line.slice(0, line.size() - 1);
  return kj::heapString(line.begin(), line.size());
}

void read(const Platform& platform, const Answers& answers, PlatformFacts& facts) {
  for (auto& reader : kReaders) {
    if (&reader.platform != &platform) continue;
    facts.platform = kj::str(platform.name);
    return reader.read(answers, facts);
  }
  KJ_UNREACHABLE;
}

}  // namespace talos::platforms
