#include "machined/disk/encryption/node-id-passphrase.h"

#include <gtest/gtest.h>

#include "common/base/error.h"

namespace talos::machined {
namespace {

constexpr kj::byte kRaw[] = {0x33, 0x22, 0x11, 0x00, 0x55, 0x44, 0x77, 0x66,
                             0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff};

// Catches: another byte order or case than Talos', whose volumes would not open.
TEST(NodeKey, IsTheTextOfTheUuidAndTheLabel) {
  EXPECT_EQ(uuidText(kRaw), "00112233-4455-6677-8899-aabbccddeeff");
  auto passphrase = nodePassphrase(uuidText(kRaw), "STATE");
  EXPECT_EQ(kj::heapString(passphrase.asChars()), "00112233-4455-6677-8899-aabbccddeeffSTATE");
}

// Catches: a key that all machines of a manufacturer share.
TEST(NodeKey, IsNotMadeOfAUuidThatSaysNothing) {
  struct {
    kj::StringPtr uuid;
    bool weak;
  } rows[] = {
      {"", true},
      {"00000000-0000-0000-0000-000000000000", true},
      {"ffffffff-ffff-ffff-ffff-ffffffffffff", true},
      {"03000200-0400-0500-0006-000700080009", true},   // of boards whose maker forgot it: 22 zeros
      {"11111111-1111-1111-1113-456789abcdef", true},   // 19 ones
      {"11111111-1111-1111-1123-456789abcdef", false},  // 18
      {"00112233-4455-6677-8899-aabbccddeeff", false},
  };
  for (auto& row : rows) {
    EXPECT_EQ(weaknessOf(row.uuid) != nullptr, row.weak) << row.uuid.cStr();
    auto failure = kj::runCatchingExceptions([&]() { nodePassphrase(row.uuid, "STATE"); });
    EXPECT_EQ(failure != nullptr, row.weak) << row.uuid.cStr();
    KJ_IF_MAYBE (e, failure) EXPECT_EQ(kindOf(*e), ErrorKind::kFailedPrecondition);
  }
}

kj::Vector<kj::byte> structure(kj::byte type, kj::ArrayPtr<const kj::byte> fields,
                               kj::ArrayPtr<const char> texts) {
  kj::Vector<kj::byte> out;
  out.add(type);
  out.add(static_cast<kj::byte>(4 + fields.size()));
  out.add(0);
  out.add(0);
  out.addAll(fields);
  out.addAll(texts.asBytes());
  return out;
}

// Catches: an earlier structure that is skipped wrongly; a truncated table that is read beyond its
// end.
TEST(NodeKey, FindsTheUuidInTheTable) {
  kj::Vector<kj::byte> fields;
  for (int i = 0; i < 4; ++i) fields.add(1);  // numbers of texts
  fields.addAll(kj::ArrayPtr<const kj::byte>(kRaw));
  kj::Vector<kj::byte> table;
  table.addAll(structure(0, kj::arr<kj::byte>(1, 2), kj::StringPtr("a\0bc\0\0", 6).asArray()));
  table.addAll(structure(4, {}, kj::StringPtr("\0\0", 2).asArray()));
  table.addAll(structure(1, fields, kj::StringPtr("x\0\0", 3).asArray()));
  auto found = KJ_ASSERT_NONNULL(systemUuidIn(table));
  EXPECT_EQ(uuidText(found), "00112233-4455-6677-8899-aabbccddeeff");
  // The texts after the fields do not matter.
  for (size_t size = 0; size + 4 < table.size(); ++size) {
    auto cut = kj::heapArray<kj::byte>(table.slice(0, size));  // a sanitizer sees its end
    EXPECT_TRUE(systemUuidIn(cut) == nullptr) << size;
  }
  table.clear();
  table.addAll(structure(1, kj::arr<kj::byte>(1, 2, 3, 4), kj::StringPtr("\0\0", 2).asArray()));
  EXPECT_TRUE(systemUuidIn(table) == nullptr) << "of SMBIOS 2.0, without a UUID";
  kj::byte nonsense[64] = {9, 2};
  EXPECT_TRUE(systemUuidIn(nonsense) == nullptr);
}

}  // namespace
}  // namespace talos::machined
