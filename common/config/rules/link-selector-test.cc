#include "common/config/rules/link-selector.h"

#include <gmock/gmock.h>

#include <string>

namespace talos::config {
namespace {

std::string conditions(kj::StringPtr text) {
  auto selector = parseLinkSelector(text);
  if (selector.problem.size() > 0) return std::string("wrong: ") + selector.problem.cStr();
  std::string shown;
  for (auto& one : selector.any) {
    shown += shown.empty() ? "" : " or";
    auto add = [&](const char* name, kj::StringPtr value) {
      if (value.size() > 0) shown += std::string(" ") + name + "=" + value.cStr();
    };
    add("bus", one.busPath);
    add("mac", one.hardwareAddr);
    add("permanent", one.permanentAddr);
    add("pci", one.pciId);
    add("driver", one.driver);
  }
  return shown;
}

// Catches: a selector that selects another link than its author's; operators with the wrong
// precedence; what CEL knows and this system does not, as a selector of all links.
TEST(LinkSelectors, ConditionsAndWhatTheyAreNot) {
  const std::pair<const char*, const char*> rows[] = {
      {"mac(link.permanent_addr) == \"02:00:5e:10:00:01\"", " permanent=02:00:5e:10:00:01"},
      {"'e1000e'==link.driver", " driver=e1000e"},
      {"glob(\"0000:03:*\", link.bus_path)", " bus=0000:03:*"},
      {"glob('02:*', mac(link.hardware_addr))", " mac=02:*"},
      {"link.pciid.startsWith('1af4:') && link.driver == 'virtio_net'",
       " pci=1af4:* driver=virtio_net"},
      {"link.driver.endsWith('_net') || link.driver.contains('e1')",
       " driver=*_net or driver=*e1*"},
      {"link.driver == 'a' || link.driver == 'b' && link.pciid == 'c'",
       " driver=a or pci=c driver=b"},
      {"(link.driver == 'a' || link.driver == 'b') && link.pciid == 'c'",
       " pci=c driver=a or pci=c driver=b"},
      {"link.driver == 'a' && link.driver == 'a'", " driver=a"},
      {"link.driver == 'a' && link.driver == 'b'",
       "wrong: in the selector, at \"link.driver == 'a' &…\": two conditions"},
      {"true", "wrong: in the selector, at \"true\": this system selects by"},
      {"!(link.driver == 'a')", "wrong: in the selector, at \"!"},
      {"link.driver == 'a*'", "wrong: in the selector, at \"'a*'\": use glob()"},
      {"link.driver == ''", "wrong: in the selector, at \"''\": an empty text"},
      {"link.driver_version == 'a'", "wrong: in the selector"},
      {"link.permanent_addr == 'a'", "wrong: in the selector"},
      {"link.driver == 'a' 'b'", "wrong: in the selector, at \"'b'\": this is not expected"},
      {"", "wrong: in the selector, at its end: an operand is missing"},
      {"((((((((((((((((((((((((((((((((((((((((", "wrong: "},
  };
  for (auto& [text, expected] : rows) {
    EXPECT_THAT(conditions(text), ::testing::StartsWith(expected)) << text;
  }
}

}  // namespace
}  // namespace talos::config
