// link: machined-api
// Records of /dev/kmsg: any program that may write there chooses a part of their bytes.
#include <kj/debug.h>

#include "machined/api/kmsg.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto record = kj::arrayPtr(reinterpret_cast<const char*>(data), size);
  KJ_IF_MAYBE (parsed, talos::machined::parseKmsg(record)) {
    auto line = talos::machined::formatKmsg(*parsed, kj::UNIX_EPOCH);
    KJ_ASSERT(line.endsWith("\n"));
    KJ_ASSERT(line.findFirst('\n').orDefault(0) == line.size() - 1, "a line is one line");
  }
  return 0;
}
