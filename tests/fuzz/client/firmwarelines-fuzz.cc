// link: talosctl-diagnose
// Lines of a node's kernel log: a node that is not trusted may send any, and on a good one programs
// and devices choose parts of them.
#include <capnp/message.h>
#include <capnp/orphan.h>
#include <kj/debug.h>

#include "common/base/lines.h"
#include "talosctl/diagnose/missing-firmware.h"
#include "tests/fuzz/fuzz-target.h"

FUZZ_TARGET(firmwarelines) {
  auto text = kj::heapString(reinterpret_cast<const char*>(data), size);
  kj::Vector<kj::String> lines;
  for (auto line : talos::Lines(text)) lines.add(kj::heapString(line));
  capnp::MallocMessageBuilder message;
  auto list = message.getOrphanage().newOrphan<capnp::List<capnp::Text>>(lines.size());
  for (auto i : kj::indices(lines)) list.get().set(i, lines[i]);
  for (auto& missing : talos::talosctl::missingFirmware(list.getReader())) {
    KJ_ASSERT(missing.files.size() > 0 && missing.files.size() == missing.lines.size());
    auto package = talos::talosctl::firmwarePackage(missing.files[0]);
    for (auto& file : missing.files) {
      KJ_ASSERT(file.size() > 0);
      KJ_ASSERT(talos::talosctl::firmwarePackage(file) == package, "one package each");
    }
  }
  return 0;
}
