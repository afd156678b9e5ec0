// A machine config from a server or a user: any bytes end in a view and in problems with their
// places.
#include "common/config/config.h"

#include <kj/debug.h>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace talos;
  auto config = config::parse(kj::arrayPtr(reinterpret_cast<const char*>(data), size), "fuzz");
  Problems problems;
  config::checkMode(config, config::Mode::kMetal, "fuzz", problems);
  render(config.problems());
  KJ_ASSERT(config.bytes().size() == size);
  if (!config.good()) return 0;
  // A valid config stays valid when it is written from its view.
  auto text = codec::writeYaml(config.get(), {.empties = codec::Empties::kOmit});
  auto again = config::parse(text, "again");
  KJ_ASSERT(again.good(), text, render(again.problems()));
  return 0;
}
