// link: common-config
// Machine configs of anybody, shown without their secrets: as many lines as before, and nothing of
// the secrets that the reader finds.
#include <kj/debug.h>

#include <algorithm>
#include <string_view>

#include "common/config/config-redact.h"
#include "common/config/config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace talos;
  auto text = kj::arrayPtr(reinterpret_cast<const char*>(data), size);
  auto shown = config::redact(text);
  if (shown.startsWith("*** (")) return 0;
  KJ_ASSERT(std::count(shown.begin(), shown.end(), '\n') ==
            std::count(text.begin(), text.end(), '\n'));
  auto config = config::parse(text, "fuzz");
  if (!config.good()) return 0;
  std::string_view before(text.begin(), text.size()), after(shown.begin(), shown.size());
  for (kj::StringPtr secret : {kj::StringPtr(config.get().getMachine().getToken()),
                               kj::StringPtr(config.get().getCluster().getToken())}) {
    std::string_view value(secret.begin(), secret.size());
    // A value that occurs once in the config is the secret itself.
    if (value.size() < 8 || before.find(value) != before.rfind(value)) continue;
    KJ_ASSERT(after.find(value) == after.npos, shown);
  }
  return 0;
}
