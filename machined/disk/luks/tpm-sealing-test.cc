// Against swtpm, a real TPM 2.0 in software.
#include "machined/disk/luks/tpm-sealing.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <kj/io.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

#include "common/base/error.h"
#include "machined/disk/luks/test-swtpm.h"

namespace talos::luks {
namespace {

constexpr auto kSecret = "0123456789abcdef0123456789ABCDEF"_kj;

struct TpmSealing : public ::testing::Test {
  Swtpm chip;
  ~TpmSealing() noexcept override {}

  TpmSealing() { measure(); }
  // Firmware does this at each start.
  void measure() {
    chip.extend(4, 4);
    chip.extend(7, 7);
  }
  static kj::String seal(Swtpm& chip, std::initializer_list<unsigned> pcrs) {
    return chip.connect().seal(kSecret.asBytes(), kj::arrayPtr(pcrs.begin(), pcrs.size()));
  }
  static std::string unseal(Swtpm& chip, kj::StringPtr userData) {
    auto secret = chip.connect().unseal(userData);
    return {secret.asChars().begin(), secret.size()};
  }
  template <typename Work>
  static std::string refusalOf(Work&& work) {
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { work(); })) {
      EXPECT_EQ(kindOf(*e), ErrorKind::kFailedPrecondition) << messageOf(*e).cStr();
      return messageOf(*e).cStr();
    }
    return "it was not refused";
  }
};

#define EXPECT_REFUSAL(work, text)                         \
  do {                                                     \
    auto said = refusalOf([&] { work; });                  \
    EXPECT_NE(said.find(text), std::string::npos) << said; \
  } while (false)

// Catches: a key that the same machine does not get back after a restart with the same
// measurements; sessions and objects that stay in the TPM until it has no room.
TEST_F(TpmSealing, GivesTheKeyBackAfterARestart) {
  auto seven = seal(chip, {7}), two = seal(chip, {7, 4}), none = seal(chip, {});
  EXPECT_EQ(unseal(chip, seven), kSecret.cStr());
  chip.restart();
  measure();
  for (int i = 0; i < 8; ++i) EXPECT_EQ(unseal(chip, seven), kSecret.cStr());
  EXPECT_EQ(unseal(chip, two), kSecret.cStr());
  EXPECT_EQ(unseal(chip, none), kSecret.cStr());
  EXPECT_EQ(std::string(seven.cStr()).find(kSecret.cStr()), std::string::npos);
  auto key = tpm::readUserData(two);
  ASSERT_EQ(key.pcrs.size(), 2u);
  EXPECT_EQ(key.pcrs[0].number, 4u);
  EXPECT_EQ(key.pcrs[1].number, 7u);
}

// Catches: a key that opens although the machine started in another way; a refusal that does not
// say which register differs; a key without registers that a changed register locks.
TEST_F(TpmSealing, NamesTheRegistersThatDiffer) {
  auto two = seal(chip, {4, 7}), none = seal(chip, {});
  chip.extend(7, 1);
  EXPECT_REFUSAL(unseal(chip, two), "sealed the key: PCR 7 (Secure Boot) differs");
  chip.extend(4, 1);
  EXPECT_REFUSAL(unseal(chip, two), "PCR 4 (boot loader), PCR 7 (Secure Boot) differs");
  EXPECT_EQ(unseal(chip, none), kSecret.cStr());
}

// Catches: a TPM that gives the key out after a change of the values in the header.
TEST_F(TpmSealing, TheTpmItselfComparesTheRegisters) {
  auto key = tpm::readUserData(seal(chip, {7}));
  chip.extend(7, 1);
  auto now = tpm::readUserData(seal(chip, {7}));
  key.pcrs = kj::mv(now.pcrs);
  EXPECT_REFUSAL(unseal(chip, tpm::userDataOf(key)), "the TPM cannot unseal the key: ");
  key.pcrs = nullptr;
  EXPECT_REFUSAL(unseal(chip, tpm::userDataOf(key)), "the TPM cannot unseal the key: ");
}

// Catches: a disk in another machine, or a cleared TPM, that is reported as something else.
TEST_F(TpmSealing, AnotherTpmAndAClearedOne) {
  auto key = seal(chip, {7});
  Swtpm other;
  other.extend(7, 7);
  EXPECT_REFUSAL(unseal(other, key), "another machine has sealed the key, or this TPM was cleared");
  chip.clear();
  EXPECT_REFUSAL(unseal(chip, key), "another machine has sealed the key, or this TPM was cleared");
  EXPECT_EQ(unseal(chip, seal(chip, {7})), kSecret.cStr());
}

// Catches: a changed key that is opened, or that ends the program.
TEST_F(TpmSealing, RefusesAChangedKey) {
  auto good = seal(chip, {7});
  auto changed = [&](size_t at, bool publicPart) {
    auto key = tpm::readUserData(good);
    (publicPart ? key.publicPart : key.privatePart)[at] ^= 1;
    return tpm::userDataOf(key);
  };
  auto size = tpm::readUserData(good).privatePart.size();
  EXPECT_REFUSAL(unseal(chip, changed(size - 1, false)), "load the sealed key: ");
  EXPECT_REFUSAL(unseal(chip, changed(8, false)), "the sealed key was changed");
  EXPECT_REFUSAL(unseal(chip, changed(0, false)), "not an object of a TPM");
  size = tpm::readUserData(good).publicPart.size();
  for (size_t at = 0; at < size; ++at) {
    EXPECT_NE(refusalOf([&] { unseal(chip, changed(at, true)); }), "it was not refused") << at;
  }
  auto cut = tpm::readUserData(good);
  cut.privatePart = kj::heapArray<kj::byte>(cut.privatePart.slice(0, 20));
  EXPECT_REFUSAL(unseal(chip, tpm::userDataOf(cut)), "not an object of a TPM");
  EXPECT_REFUSAL(unseal(chip, "{\"keyslots\":["), "it is not JSON");
  EXPECT_EQ(unseal(chip, good), kSecret.cStr());
}

// Catches: a key that is sealed to a register that says nothing.
TEST_F(TpmSealing, RefusesRegistersThatNothingWasMeasuredInto) {
  EXPECT_REFUSAL(seal(chip, {7, 8}), "nothing was measured into PCR 8 of the TPM");
  EXPECT_REFUSAL(seal(chip, {17}), "nothing was measured into PCR 17 of the TPM");
}

// Catches: a message that blames the disk for a machine without a TPM, or with an owner.
TEST_F(TpmSealing, NoDeviceAndAnOwnersPassword) {
  EXPECT_REFUSAL(Tpm("/dev/tpm-that-is-not-there"),
                 "this machine has no TPM 2.0 (no /dev/tpm-that-is-not-there)");
  EXPECT_REFUSAL(Tpm("/dev/null"), "the TPM cannot be ");
  chip.setOwnerPassword();
  EXPECT_REFUSAL(seal(chip, {7}), "its owner hierarchy has a password");
}

// Catches: a key that is sealed without Secure Boot although the config forbids it.
TEST(SecureBootOfSealing, IsDemanded) {
  char name[] = "/tmp/boot-params-XXXXXX";
  kj::AutoCloseFd fd(mkstemp(name));
  KJ_DEFER(unlink(name));
  auto on = [&](char value) {
    std::string data(4096, '\0');
    data[0x1ec] = value;
    KJ_SYSCALL(pwrite(fd, data.data(), data.size(), 0));
    return kj::runCatchingExceptions([&] { requireSecureBoot(name); }) == nullptr;
  };
  EXPECT_TRUE(on(3));
  EXPECT_FALSE(on(2));
  EXPECT_FALSE(on(0));
  EXPECT_FALSE(kj::runCatchingExceptions([&] { requireSecureBoot("/no/such"); }) == nullptr);
}

}  // namespace
}  // namespace talos::luks
