// link: machined-disk-encryption
// The keys of STATE in META, from any bytes on the disk. Keys that are read are written and read
// again as the same keys.
#include <kj/debug.h>

#include "common/base/error.h"
#include "machined/disk/encryption/state-keys-in-meta.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace talos;
  using namespace talos::machined;
  constexpr auto kUuid = "00112233-4455-6677-8899-aabbccddeeff"_kj;
  auto text = kj::heapArray<kj::byte>(data, size);  // a sanitizer sees its end
  kj::Maybe<VolumeSettings> read;
  try {
    read = readStateKeys(text, kUuid);
  } catch (const kj::Exception& e) {
    KJ_ASSERT(kindOf(e) == ErrorKind::kInvalidArgument, e);
  }
  KJ_IF_MAYBE (settings, read) {
    KJ_ASSERT(settings->keys.size() >= 1 && settings->keys.size() <= kKeySlots);
    capnp::MallocMessageBuilder message;
    auto config = message.initRoot<config::Encryption>();
    config.initOptions(1).set(0, kReadableInMeta);
    auto keys = config.initKeys(static_cast<unsigned>(settings->keys.size()));
    for (unsigned i = 0; i < keys.size(); ++i) {
      auto& key = settings->keys[i];
      KJ_ASSERT(key.atBoot && key.slot < kKeySlots);
      keys[i].setSlot(key.slot);
      if (key.kind == KeyKind::kNodeId) {
        keys[i].initNodeID();
      } else {
        keys[i].initStatic().setPassphrase(kj::str(key.passphrase.asChars()));
      }
    }
    KJ_ASSERT(sameKeys(readStateKeys(stateKeysText(config), kUuid), *settings));
  }
  return 0;
}
