#include "machined/disk/luks/luks-device.h"

#include <capnp/message.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <libcryptsetup.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <string>

#include "common/base/error.h"
#include "common/base/file.h"
#include "machined/disk/luks/test-volume-file.h"

namespace talos::luks {
namespace {

// Debian's cryptsetup reads the headers that we write.
struct Volume : public VolumeFile {
  ~Volume() noexcept override {}
  Format how() {
    return {.keySize = 512, .sectorSize = 512, .label = "STATE"_kj, .derivation = derivation()};
  }
  void format(std::initializer_list<Key> keys) { Device(path).format(kj::heapArray(keys), how()); }
  kj::Maybe<Opened> open(std::initializer_list<Key> keys) {
    return Device(path).open(kj::heapArray(keys), "", {});
  }
  void write(size_t at, kj::StringPtr bytes) {
    kj::AutoCloseFd fd(::open(path.cStr(), O_RDWR));
    EXPECT_EQ(pwrite(fd, bytes.begin(), bytes.size(), at), ssize_t(bytes.size()));
  }
  kj::String content() { return readFile(path); }
  // Returns the program's exit status; -1 if it was killed.
  int tool(std::string arguments) {
    int status =
        system(("cryptsetup " + arguments + " " + path.cStr() + " >" + folder.cStr() + "/said 2>&1")
                   .c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  bool toolOpens(kj::StringPtr passphrase, unsigned slot) {
    auto line =
        kj::str("printf ", passphrase, " | cryptsetup open --test-passphrase --key-file=- -S ",
                slot, " ", path, " 2>/dev/null");
    return system(line.cStr()) == 0;
  }
  std::string said() { return readFile(kj::str(folder, "/said")).cStr(); }

  template <typename Work>
  std::string refusal(Work&& work, ErrorKind kind = ErrorKind::kFailedPrecondition) {
    auto failure = kj::runCatchingExceptions([&]() { work(); });
    KJ_IF_MAYBE (e, failure) {
      EXPECT_EQ(kindOf(*e), kind) << messageOf(*e).cStr();
      return messageOf(*e).cStr();
    }
    ADD_FAILURE() << "it was not refused";
    return "";
  }
};

#define EXPECT_HAS(text, expected) \
  EXPECT_NE(std::string(text).find(expected), std::string::npos) << (text)

// Catches: a header that other programs cannot read; keys at other slots than requested; another
// cipher, key size or derivation than requested; a lost label or mark of freshness.
TEST_F(Volume, IsWhatCryptsetupMakesOfIt) {
  EXPECT_EQ(Device(path).content(), Content::EMPTY);
  format({key(3, "three"), key(7, "seven")});
  Device device(path);
  ASSERT_EQ(device.content(), Content::LUKS);
  auto slots = device.slots();
  ASSERT_EQ(slots.size(), 2u);
  EXPECT_EQ(slots[0], 3u);
  EXPECT_EQ(slots[1], 7u);
  EXPECT_EQ(device.cipher(), "aes-xts-plain64");
  EXPECT_EQ(device.keySize(), 512u);
  EXPECT_EQ(device.sectorSize(), 512u);
  EXPECT_TRUE(device.fresh());
  EXPECT_TRUE(device.weakness() == nullptr);

  ASSERT_EQ(tool("luksDump"), 0) << said();
  auto dump = said();
  EXPECT_HAS(dump, "Label:         \tSTATE");
  EXPECT_HAS(dump, "offset: 16777216 [bytes]");
  EXPECT_HAS(dump, "argon2id");
  EXPECT_HAS(dump, "Time cost:  4");
  EXPECT_HAS(dump, "Memory:     64");
  EXPECT_HAS(dump, "0: talos-fresh");
  EXPECT_HAS(dump, device.uuid().cStr());
  EXPECT_EQ(tool("isLuks --type luks2"), 0);
  EXPECT_TRUE(toolOpens("three", 3));
  EXPECT_FALSE(toolOpens("three", 7));
  EXPECT_TRUE(toolOpens("seven", 7));
}
TEST_F(Volume, HasTheSizesThatAreWanted) {
  kj::Vector<Key> keys;
  keys.add(key(0, "x"));
  Device device(path);
  device.format(keys, {256, 4096, "EPHEMERAL"_kj, derivation()});
  EXPECT_EQ(device.keySize(), 256u);
  EXPECT_EQ(device.sectorSize(), 4096u);
  EXPECT_TRUE(device.weakness() == nullptr);
}

// Catches: a key that is tried at one slot only; a wrong key that opens; a wrong report of the slot
// or key that opened; a key of an unused slot taken for a failure.
TEST_F(Volume, IsOpenedByTheFirstKeyThatFits) {
  format({key(3, "three"), key(7, "seven")});
  auto opened = KJ_ASSERT_NONNULL(open({key(0, "zero"), key(7, "seven"), key(3, "three")}));
  EXPECT_EQ(opened.slot, 7u);
  EXPECT_EQ(opened.key, 1u);
  opened = KJ_ASSERT_NONNULL(open({key(1, "seven"), key(3, "wrong")}));
  EXPECT_EQ(opened.slot, 7u);
  EXPECT_EQ(opened.key, 0u);
  // A key's own slot takes precedence over the order.
  opened = KJ_ASSERT_NONNULL(open({key(1, "seven"), key(3, "three")}));
  EXPECT_EQ(opened.slot, 3u);
  EXPECT_TRUE(open({key(3, "seve"), key(7, "sevens"), key(9, "")}) == nullptr);
  EXPECT_TRUE(open({}) == nullptr);
}

// Catches: foreign data, or data with a damaged header, that is formatted away.
TEST_F(Volume, IsNotFormattedOverAnything) {
  for (size_t at : {(1u << 20) - 1, 1u << 20, (16u << 20) - 1}) {
    SCOPED_TRACE(at);
    write(at, "x");
    auto before = content();
    EXPECT_EQ(Device(path).content(), Content::OTHER);
    EXPECT_HAS(refusal([&] { format({key(0, "x")}); }), "is not empty");
    EXPECT_EQ(content(), before);
    EXPECT_HAS(refusal([&] { open({key(0, "x")}); }), "it has no LUKS2 header");
    write(at, kj::StringPtr("\0", 1));
  }
  write(16u << 20, "x");
  EXPECT_EQ(Device(path).content(), Content::OTHER) << "it may have been a file system";
  EXPECT_EQ(truncate(path.cStr(), 129 << 20), 0);
  format({key(0, "x")});  // its content is unreadable
  EXPECT_EQ(Device(path).content(), Content::LUKS);
  EXPECT_HAS(refusal([&] { format({key(1, "y")}); }), "is not empty");
  EXPECT_TRUE(open({key(0, "x")}) != nullptr);
}
// Catches: a volume whose headers were both zeroed that counts as empty, although its slots exist;
// a volume that can be opened by its second header and is refused.
TEST_F(Volume, IsNotEmptyWhenItsHeaderIsZeroed) {
  format({key(0, "a"), key(1, "b"), key(2, "c"), key(3, "d"), key(4, "e")});
  auto zeros = kj::heapString(1u << 20);
  memset(zeros.begin(), 0, zeros.size());
  write(0, zeros.slice(zeros.size() - 0x4000));
  EXPECT_EQ(Device(path).content(), Content::LUKS);
  EXPECT_TRUE(open({key(4, "e")}) != nullptr);
  write(0, zeros);
  auto before = content();
  Device device(path);
  EXPECT_EQ(device.content(), Content::OTHER);
  EXPECT_HAS(KJ_ASSERT_NONNULL(device.damage()).cStr(), "header was damaged");
  EXPECT_HAS(refusal([&] { format({key(0, "x")}); }), "is not empty");
  EXPECT_EQ(content(), before);
  write(0, "other data");
  EXPECT_TRUE(Device(path).damage() == nullptr);
}
TEST_F(Volume, OutlivesOneDamagedHeader) {
  format({key(0, "x")});
  write(0, "XXXXXXXX");
  EXPECT_EQ(Device(path).content(), Content::LUKS);
  EXPECT_TRUE(open({key(0, "x")}) != nullptr);
  write(0, "XXXXXXXX");
  write(0x4000, "XXXXXXXX");
  auto before = content();
  EXPECT_EQ(Device(path).content(), Content::OTHER);
  EXPECT_HAS(refusal([&] { format({key(0, "x")}); }), "is not empty");
  EXPECT_EQ(content(), before);
}

// Catches: an interrupted formatting that makes the device unusable, or that counts as complete too
// early.
TEST_F(Volume, IsFormattedAgainAfterACut) {
  constexpr kj::StringPtr kMark = "machined: this partition is being formatted as LUKS2\n"_kj;
  char sector[512] = {};
  memcpy(sector, kMark.begin(), kMark.size());
  write(0, kj::StringPtr(sector, 511));
  write(4096, "half a header");
  EXPECT_EQ(Device(path).content(), Content::EMPTY);
  format({key(0, "x")});
  EXPECT_TRUE(open({key(0, "x")}) != nullptr);
  // Everything but the last write.
  write(0, kj::StringPtr(sector, 511));
  EXPECT_EQ(Device(path).content(), Content::EMPTY);
  format({key(0, "y")});
  EXPECT_TRUE(open({key(0, "y")}) != nullptr);
  EXPECT_TRUE(open({key(0, "x")}) == nullptr);
  // An interrupted XFS in its place.
  kj::byte xfs[127] = {'X', 'F', 'S', 'B'};
  xfs[126] = 1;
  write(0, kj::str(kj::arrayPtr(xfs, sizeof xfs).asChars()));
  EXPECT_EQ(Device(path).content(), Content::EMPTY);
  // A mark followed by other bytes is not a mark.
  auto other = kj::str(kMark, "x");
  write(0, other);
  write(0x4000, "XXXXXXXX");
  EXPECT_EQ(Device(path).content(), Content::OTHER);
  // Nor does a complete XFS count as empty.
  xfs[126] = 0;
  write(0, kj::str(kj::arrayPtr(xfs, sizeof xfs).asChars()));
  EXPECT_EQ(Device(path).content(), Content::OTHER);
}

// Catches: a header that was rewritten to encrypt nothing, or little, and that is used.
TEST_F(Volume, IsNotOpenedWhenItIsWeak) {
  ASSERT_EQ(
      system(
          kj::str(
              "printf x | cryptsetup -q luksFormat --type luks2 -c aes-cbc-plain64 --pbkdf pbkdf2 "
              "--pbkdf-force-iterations 1000 --key-file=- ",
              path)
              .cStr()),
      0);
  EXPECT_HAS(refusal([&] { open({key(0, "x")}); }), "the cipher aes-cbc-plain64");
}
TEST_F(Volume, IsNotOpenedWhenASlotIsWeak) {
  format({key(0, "x")});
  {
    crypt_device* cd;
    ASSERT_EQ(crypt_init(&cd, path.cStr()), 0);
    KJ_DEFER(crypt_free(cd));
    ASSERT_EQ(crypt_load(cd, CRYPT_LUKS2, nullptr), 0);
    ASSERT_EQ(crypt_keyslot_set_encryption(cd, "aes-cbc-plain64", 32), 0);
    struct crypt_pbkdf_type fast = {CRYPT_KDF_PBKDF2,        "sha256", 1, 1000, 0, 0,
                                    CRYPT_PBKDF_NO_BENCHMARK};
    ASSERT_EQ(crypt_set_pbkdf_type(cd, &fast), 0);
    ASSERT_EQ(crypt_keyslot_add_by_passphrase(cd, 5, "x", 1, "y", 1), 5);
  }
  EXPECT_HAS(refusal([&] { open({key(0, "x")}); }), "key slot 5 with the cipher aes-cbc-plain64");
}

// Catches: a change of keys that loses the last one, overwrites a key, or needs no authorisation.
TEST_F(Volume, KeepsAKeyWhateverIsChanged) {
  format({key(0, "old")});
  Device device(path);
  EXPECT_HAS(refusal([&] { device.add(key(0, "new"), key(0, "old"), derivation()); }),
             "key slot 0 is not free");
  EXPECT_HAS(refusal([&] { device.add(key(1, "new"), key(0, "wrong"), derivation()); }),
             "the key of slot 0 does not open it");
  EXPECT_HAS(refusal([&] { device.remove(0, key(0, "old")); }), "no other key opens it");
  EXPECT_HAS(refusal([&] { device.remove(0, key(1, "new")); }), "no other key opens it");
  EXPECT_EQ(device.slots().size(), 1u);
  device.add(key(1, "new"), key(0, "old"), derivation());
  EXPECT_TRUE(device.fits(key(1, "new")));
  EXPECT_FALSE(device.fits(key(1, "old")));
  EXPECT_FALSE(device.fits(key(2, "new")));
  EXPECT_HAS(refusal([&] { device.remove(0, key(1, "wrong")); }), "no other key opens it");
  device.remove(0, key(1, "new"));
  device.remove(0, key(1, "new"));  // again, after a crash
  EXPECT_EQ(Device(path).slots().size(), 1u);
  EXPECT_TRUE(open({key(1, "new")}) != nullptr);
  EXPECT_TRUE(open({key(0, "old")}) == nullptr);
}

// Catches: a sealed key that is lost with a change of another one, or stays when its slot is gone;
// a token that replaces the mark of a volume without a file system.
TEST_F(Volume, KeepsSealedKeysAsTokens) {
  auto sealed = [](unsigned slot, kj::StringPtr passphrase, kj::StringPtr userData) {
    auto result = key(slot, passphrase);
    result.tokenType = "talos-tpm2"_kj;
    result.userData = userData;
    return result;
  };
  format({sealed(0, "x", R"({"pcrs":[7]})"), key(1, "y")});
  {
    Device device(path);
    EXPECT_EQ(KJ_ASSERT_NONNULL(device.token(0)).userData, R"({"pcrs":[7]})");
    EXPECT_EQ(KJ_ASSERT_NONNULL(device.token(0)).type, "talos-tpm2");
    EXPECT_TRUE(device.token(1) == nullptr);
    // The mark of freshness has one of the free numbers.
    for (unsigned slot = 2; slot < 6; ++slot) {
      device.add(sealed(slot, "z", R"({"a":"b"})"), key(1, "y"), derivation());
      EXPECT_TRUE(device.fresh());
      EXPECT_EQ(KJ_ASSERT_NONNULL(Device(path).token(slot)).userData, R"({"a":"b"})");
    }
    device.remove(0, key(1, "y"));
    EXPECT_TRUE(device.token(0) == nullptr);
    auto served = sealed(0, "v", R"({"sealedData":"AAEC"})");
    served.tokenType = "sideroKMS"_kj;
    device.add(served, key(1, "y"), derivation());
    EXPECT_EQ(KJ_ASSERT_NONNULL(Device(path).token(0)).type, "sideroKMS");
    EXPECT_EQ(KJ_ASSERT_NONNULL(Device(path).token(0)).userData, R"({"sealedData":"AAEC"})");
    device.remove(0, key(1, "y"));
    EXPECT_TRUE(device.token(0) == nullptr);
    device.add(key(0, "w"), key(1, "y"), derivation());
    EXPECT_TRUE(Device(path).token(0) == nullptr);
    device.settle();
  }
  EXPECT_FALSE(Device(path).fresh());
  EXPECT_EQ(tool("luksDump"), 0);
  EXPECT_HAS(said(), "2: talos-tpm2");
  EXPECT_TRUE(open({key(5, "z")}) != nullptr);
  EXPECT_HAS(refusal([&] { Device(path).add(sealed(9, "q", "{"), key(1, "y"), derivation()); }),
             "cannot store the sealed key of slot 9 of");
}

// Catches: a volume that is formatted again at each boot, or never gets its file system.
TEST_F(Volume, IsFreshUntilItIsSettled) {
  format({key(0, "x")});
  EXPECT_TRUE(KJ_ASSERT_NONNULL(open({key(0, "x")})).fresh);
  Device(path).settle();
  EXPECT_FALSE(Device(path).fresh());
  EXPECT_FALSE(KJ_ASSERT_NONNULL(open({key(0, "x")})).fresh);
  Device(path).settle();
  EXPECT_EQ(Device(path).content(), Content::LUKS);
}

}  // namespace
}  // namespace talos::luks
