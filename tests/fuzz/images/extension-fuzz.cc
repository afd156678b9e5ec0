// link: common-extension rootfs-schematic common-config-documents
// Files of system extensions as anyone publishes them, schematics, and the documents of services in
// a machine config. The first byte chooses the file.
#include <capnp/message.h>
#include <kj/debug.h>
#include <stddef.h>
#include <stdint.h>

#include "common/config/documents/document-extensions.h"
#include "common/extension/extension-files.h"
#include "rootfs/schematic/schematic.h"
#include "tests/fuzz/fuzz-target.h"

using namespace talos;

namespace {

// A good schematic has only what a builder carries out.
void checkPlan(kj::StringPtr text) {
  auto known = kj::heapArray<kj::String>(1);
  known[0] = kj::str("iscsi-tools");
  Problems problems;
  auto plan = extension::planOf(text, "s", known, problems);
  if (hasErrors(problems)) return;
  KJ_ASSERT(plan.extensions.size() <= 1);
  for (auto& argument : plan.arguments) {
    for (char c : argument) KJ_ASSERT(c > ' ' && c < '\x7f');
  }
}

void checkDocuments(kj::ArrayPtr<const char> text) {
  capnp::MallocMessageBuilder message;
  auto list = message.getOrphanage().newOrphan<capnp::List<extension::ServiceConfig>>(0);
  config::extensionConfigs(text, [&](unsigned size) {
    list = message.getOrphanage().newOrphan<capnp::List<extension::ServiceConfig>>(size);
    return list.get();
  });
  for (auto config : list.getReader()) KJ_ASSERT(extension::isExtensionName(config.getName()));
}

}  // namespace

FUZZ_TARGET(extension) {
  if (size == 0) return 0;
  auto text = kj::heapString(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0: {
      auto manifest = extension::readManifest(text, "m");
      if (!manifest->isGood()) break;
      KJ_ASSERT(extension::isExtensionName(manifest->get().getMetadata().getName()));
      extension::incompatibility(manifest->get(), "v1.2.3");
      break;
    }
    case 1: {
      auto service = extension::readService(text, "s");
      KJ_ASSERT(!service->isGood() || extension::isExtensionName(service->get().getName()));
      break;
    }
    case 2:
      checkPlan(text);
      break;
    default:
      checkDocuments(text);
  }
  return 0;
}
