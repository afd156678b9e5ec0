// The partition META of a foreign disk: its values, and the keys of STATE among them; and what the
// header of a volume has of a key that a TPM has sealed.
//
// link: machined-disk-encryption machined-disk-volumes machined-disk-tpm
#include <kj/debug.h>
#include <openssl/evp.h>
#include <string.h>

#include "common/base/error.h"
#include "machined/disk/devices/meta-values.h"
#include "machined/disk/encryption/state-keys-in-meta.h"
#include "machined/disk/tpm/sealed-key.h"
#include "tests/fuzz/fuzz-target.h"

// The keys of STATE in META, from any bytes on the disk. Keys that are read are written and read
// again as the same keys.
FUZZ_TARGET(statekeys) {
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
      } else if (key.kind == KeyKind::kKms) {
        keys[i].initKms().setEndpoint(KJ_ASSERT_NONNULL(key.sealing).endpoint);
      } else if (key.kind == KeyKind::kTpm) {
        auto& pcrs = KJ_ASSERT_NONNULL(key.sealing).pcrs;
        auto list = keys[i].initTpm().initOptions().initPcrs(static_cast<unsigned>(pcrs.size()));
        for (auto j : kj::indices(pcrs)) list.set(j, pcrs[j]);
      } else {
        keys[i].initStatic().setPassphrase(kj::str(key.passphrase.asChars()));
      }
    }
    KJ_ASSERT(sameKeys(readStateKeys(stateKeysText(config), kUuid), *settings));
  }
  return 0;
}

// A sealed key in the token of a header. What is read is written as the same key.
FUZZ_TARGET(sealedkey) {
  using namespace talos;
  auto text = kj::heapString(reinterpret_cast<const char*>(data), size);
  tpm::userDataIn(text);
  kj::Maybe<tpm::SealedKey> read;
  try {
    read = tpm::readUserData(text);
  } catch (const kj::Exception& e) {
    KJ_ASSERT(kindOf(e) == ErrorKind::kFailedPrecondition, e);
  }
  KJ_IF_MAYBE (key, read) {
    KJ_ASSERT(key->pcrs.size() <= tpm::kPcrs);
    auto written = tpm::userDataOf(*key);
    KJ_ASSERT(tpm::userDataOf(tpm::readUserData(written)) == written);
  }
  return 0;
}

using talos::machined::kMetaCopyBytes;
using talos::machined::MetaValues;

namespace {

constexpr size_t kShort = 1 << 10, kTail = 36, kSmallBytes = 512;

size_t smallAt(size_t large) {
  return 2 * large;
}

void seal(kj::ArrayPtr<kj::byte> partition, size_t large) {
  const kj::byte begin[] = {0x5a, 0x4b, 0x3c, 0x2d}, end[] = {0xa5, 0xb4, 0xc3, 0xd2};
  memcpy(partition.begin(), begin, sizeof begin);
  memcpy(partition.begin() + large - 4, end, sizeof end);
  memset(partition.begin() + large - kTail, 0, 32);
  KJ_ASSERT(EVP_Digest(partition.begin(), large, partition.begin() + large - kTail, nullptr,
                       EVP_sha256(), nullptr) == 1);
  auto copy = partition.slice(smallAt(large), smallAt(large) + kSmallBytes);
  const kj::byte head[] = {0xa5, 0x2f, 0x2d, 0x5a}, tail[] = {0x64, 0xbf, 0x28, 0xdd};
  memcpy(copy.begin(), head, sizeof head);
  memcpy(copy.begin() + 508, tail, sizeof tail);
  uint32_t sum = 0xa3041767, word;
  for (size_t at = 8; at < 508; at += 4) {
    memcpy(&word, copy.begin() + at, sizeof word);
    sum -= word;
  }
  memcpy(copy.begin() + 4, &sum, sizeof sum);
}

bool same(const MetaValues& a, const MetaValues& b) {
  if (a.tags().asPtr() != b.tags().asPtr()) return false;
  for (auto tag : a.tags()) {
    if (KJ_ASSERT_NONNULL(a.get(tag)) != KJ_ASSERT_NONNULL(b.get(tag))) return false;
  }
  return true;
}

}  // namespace

// The partition META of a foreign disk: two vectors of values, whose checksums this program makes
// right or leaves wrong. The values that are read must be written in the same way. A copy of the
// large vector is short, because its checksum would take fifty times as long as all else; now and
// then it is as long as on a disk.
FUZZ_TARGET(meta) {
  if (size < 2) return 0;
  size_t large = data[0] == 0xff && data[1] >> 4 == 0xf ? kMetaCopyBytes : kShort;
  auto partition = kj::heapArray<kj::byte>(2 * (large + kSmallBytes));
  memset(partition.begin(), 0, partition.size());
  auto rest = kj::arrayPtr(data + 2, size - 2);
  auto forSmall = rest.slice(0, kj::min(rest.size(), size_t(data[0]) * 2));
  auto forLarge = rest.slice(forSmall.size(), rest.size());
  memcpy(partition.begin() + smallAt(large) + 8, forSmall.begin(), kj::min(forSmall.size(), 504));
  memcpy(partition.begin() + 4, forLarge.begin(), kj::min(forLarge.size(), large - kTail - 4));
  if ((data[1] & 1) != 0) seal(partition, large);
  MetaValues values(partition, large);
  size_t held = 0;
  for (auto tag : values.tags()) held += KJ_ASSERT_NONNULL(values.get(tag)).size();
  KJ_ASSERT(held <= large + kSmallBytes);
  if ((data[1] & 2) != 0) {
    try {
      auto value = (data[0] & 1) != 0 ? rest : rest.slice(0, kj::min(rest.size(), data[0] >> 5));
      values.set(data[1] >> 2, value);
    } catch (const kj::Exception&) {
    }
  }
  for (auto& write : values.writes()) {
    memcpy(partition.slice(write.offset, write.offset + write.bytes.size()).begin(),
           write.bytes.begin(), write.bytes.size());
  }
  MetaValues again(partition, large);
  KJ_ASSERT(same(values, again) && again.writes().size() == 0);
  return 0;
}
