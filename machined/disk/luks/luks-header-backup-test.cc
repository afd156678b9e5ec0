#include "machined/disk/luks/luks-header-backup.h"

#include <capnp/message.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <libcryptsetup.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "common/base/error.h"
#include "common/base/file.h"
#include "machined/disk/luks/test-volume-file.h"

namespace talos::luks {
namespace {

struct HeaderFile : public VolumeFile {
  kj::String file = kj::str(folder, "/backup");
  ~HeaderFile() noexcept override {}
  void format(unsigned keySize = 512) {
    auto keys = kj::heapArray({key(0, "zero")});
    Device(path).format(keys, {keySize, 512, "EPHEMERAL"_kj, derivation()});
  }
  enum class Keep { kNothing, kBackup };
  void renew(Keep keep = Keep::kNothing) {
    if (keep == Keep::kNothing) forgetHeader(file);
    KJ_SYSCALL(truncate(path.cStr(), 0));
    KJ_SYSCALL(truncate(path.cStr(), kSize));
  }
  // Writes the first block of an XFS like the kernel, with libcryptsetup's key and OpenSSL's
  // cipher.
  void writeXfs() {
    crypt_device* cd;
    ASSERT_EQ(crypt_init(&cd, path.cStr()), 0);
    KJ_DEFER(crypt_free(cd));
    ASSERT_EQ(crypt_load(cd, CRYPT_LUKS2, nullptr), 0);
    char volumeKey[64];
    size_t size = sizeof(volumeKey);
    ASSERT_EQ(crypt_volume_key_get(cd, CRYPT_ANY_SLOT, volumeKey, &size, "zero", 4), 0);
    auto context = EVP_CIPHER_CTX_new();
    KJ_DEFER(EVP_CIPHER_CTX_free(context));
    auto cipher = size == 64 ? EVP_aes_256_xts() : EVP_aes_128_xts();
    kj::byte tweak[16] = {}, sector[512] = {'X', 'F', 'S', 'B', 1}, out[512];
    int count = 0;
    ASSERT_EQ(
        EVP_EncryptInit_ex(context, cipher, nullptr, reinterpret_cast<kj::byte*>(volumeKey), tweak),
        1);
    ASSERT_EQ(EVP_EncryptUpdate(context, out, &count, sector, sizeof(sector)), 1);
    write(path, 16u << 20, kj::arrayPtr(out, sizeof(out)).asChars());
  }
  void spoil(size_t bytes) {
    auto noise = kj::heapArray<char>(bytes);
    for (auto& c : noise) c = 'x';
    write(path, 0, noise);
  }
  std::string block(size_t at) {
    auto content = readFile(path);
    return std::string(content.begin() + at, 512);
  }
  void add(unsigned slot) { Device(path).add(key(slot, "other"), key(0, "zero"), derivation()); }
  Comparison compare() {
    Device device(path);
    return compareHeader(device, file);
  }
  void backup(bool last = true) {
    Device device(path);
    backupHeader(device, file, last);
  }
  std::string restore(kj::StringPtr passphrase = "zero") {
    Device device(path);
    auto keys = kj::heapArray({key(0, passphrase)});
    auto failure = kj::runCatchingExceptions([&]() { restoreHeader(device, file, keys); });
    KJ_IF_MAYBE (e, failure) {
      EXPECT_EQ(kindOf(*e), ErrorKind::kFailedPrecondition);
      return messageOf(*e).cStr();
    }
    return "";
  }
  static void write(kj::StringPtr path, size_t at, kj::ArrayPtr<const char> bytes) {
    kj::AutoCloseFd fd(::open(path.cStr(), O_RDWR));
    EXPECT_EQ(pwrite(fd, bytes.begin(), bytes.size(), static_cast<off_t>(at)),
              static_cast<ssize_t>(bytes.size()));
  }
  bool opens(unsigned slot, kj::StringPtr passphrase) {
    Device device(path);
    return device.content() == Content::LUKS && device.fits(key(slot, passphrase));
  }
};

// Catches: a header changed by others that passes for ours; a header changed by us that does not; a
// backup that occupies as much space as the area is large, or that cryptsetup cannot use.
TEST_F(HeaderFile, IsComparedUnlessItIsBeingChanged) {
  format();
  EXPECT_EQ(compare(), Comparison::NONE);
  backup();
  EXPECT_EQ(compare(), Comparison::SAME);
  struct stat info;
  ASSERT_EQ(stat(file.cStr(), &info), 0);
  EXPECT_EQ(info.st_size, (16 << 20) + 32);
  EXPECT_LT(info.st_blocks * 512, 1 << 20);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(system(("cryptsetup luksDump " + std::string(file.cStr()) + " >/dev/null").c_str()), 0);

  add(3);
  EXPECT_EQ(compare(), Comparison::OTHER);
  // A reader, or a cut, at this moment has the previous backup.
  auto before = kj::str(folder, "/before");
  KJ_SYSCALL(link(file.cStr(), before.cStr()));
  auto content = readFile(before);
  markHeader(file);
  EXPECT_EQ(compare(), Comparison::CHANGING);
  backup(false);
  EXPECT_EQ(compare(), Comparison::CHANGING);
  backup();
  EXPECT_EQ(compare(), Comparison::SAME);
  EXPECT_EQ(readFile(before), content);
  EXPECT_NE(readFile(file), content);
}

// Catches: a header that is restored in part, or over data; a replaced header that is not kept for
// inspection.
TEST_F(HeaderFile, IsRestoredAndNothingIsLost) {
  for (unsigned keySize : {512u, 256u}) {
    renew();
    format(keySize);
    writeXfs();
    backup();
    auto data = block(16u << 20);
    spoil(40u << 10);
    EXPECT_EQ(Device(path).content(), Content::OTHER);
    EXPECT_EQ(compare(), Comparison::OTHER);
    EXPECT_EQ(restore(), "");
    EXPECT_TRUE(opens(0, "zero"));
    EXPECT_EQ(compare(), Comparison::SAME);
    EXPECT_EQ(block(16u << 20), data);
    auto refused = readFile(kj::str(file, ".refused"));
    EXPECT_EQ(kj::heapString(refused.slice(0, 4)), "xxxx");

    add(5);
    EXPECT_EQ(restore(), "");
    EXPECT_FALSE(opens(5, "other"));
    EXPECT_EQ(kj::heapString(readFile(kj::str(file, ".refused")).slice(0, 4)), "LUKS")
        << "the one that was replaced now";
  }
}

// Catches: a refused header that is replaced by a half-restored one after a cut; a restoration that
// never ends because its last step is missing, so that the next refused header is not kept.
TEST_F(HeaderFile, WhatWasRefusedIsKeptAcrossACut) {
  format();
  writeXfs();
  backup();
  auto replaced = kj::str(file, ".replaced"), refused = kj::str(file, ".refused");
  writeFileAtomically(replaced, "first"_kj, 0600);
  spoil(40u << 10);
  EXPECT_EQ(restore(), "");
  EXPECT_EQ(readFile(refused), "first");
  EXPECT_NE(access(replaced.cStr(), F_OK), 0);
  writeFileAtomically(replaced, "second"_kj, 0600);
  EXPECT_EQ(compare(), Comparison::SAME);
  EXPECT_EQ(readFile(refused), "second");
  // A restoration in the middle of a change of keys; the change is finished with the device's
  // header.
  markHeader(file);
  writeFileAtomically(replaced, "third"_kj, 0600);
  EXPECT_EQ(compare(), Comparison::CHANGING);
  backup(false);
  EXPECT_EQ(readFile(refused), "second");
  backup();
  EXPECT_EQ(readFile(refused), "third");
  EXPECT_NE(access(replaced.cStr(), F_OK), 0);
}

// Catches: a header that is written over another volume, or over data that it does not belong to,
// which destroys the data.
TEST_F(HeaderFile, IsRestoredToItsOwnVolumeOnly) {
  format();
  writeXfs();
  backup();
  EXPECT_NE(restore("wrong").find("no key of the config opens the data"), std::string::npos);
  // The same key, but no XFS that it decrypts.
  write(path, 16u << 20, "data of somebody"_kj.asArray());
  spoil(40u << 10);
  auto before = readFile(path);
  EXPECT_NE(restore().find("no key of the config opens the data"), std::string::npos);
  EXPECT_EQ(readFile(path), before);
  // Another volume with the same keys.
  renew(Keep::kBackup);
  format();
  writeXfs();
  before = readFile(path);
  EXPECT_NE(restore().find("it is another volume's"), std::string::npos);
  EXPECT_EQ(readFile(path), before);
}

// Catches: a removed volume whose keys are still on the disk.
TEST_F(HeaderFile, HeaderBackupOfARemovedVolumeIsErased) {
  forgetHeader(file);
  format();
  writeXfs();
  backup();
  spoil(40u << 10);
  EXPECT_EQ(restore(), "");
  markHeader(file);
  forgetHeader(file);
  for (auto end : {"", ".refused", ".changing"}) {
    EXPECT_NE(access(kj::str(file, end).cStr(), F_OK), 0) << end;
  }
  // Files with all keys, left by an interrupted backup.
  for (auto end : {".unfinished", ".replaced", ".replaced.unfinished"}) {
    auto left = kj::str(file, end);
    writeFileAtomically(left, "a header"_kj, 0600);
    forgetHeader(file);
    EXPECT_NE(access(left.cStr(), F_OK), 0) << end;
  }
  // After a cut, each of them may exist alone.
  markHeader(file);
  forgetHeader(file);
  EXPECT_EQ(compare(), Comparison::NONE);
}

// Catches: a rotten backup that is written over a good header; a wiped partition that gets its old
// keys again.
TEST_F(HeaderFile, IsVerifiedBeforeItIsUsed) {
  format();
  backup();
  write(file, 4096, "?"_kj.asArray());
  EXPECT_EQ(compare(), Comparison::DAMAGED);
  EXPECT_NE(restore().find("has no intact header"), std::string::npos);
  EXPECT_TRUE(opens(0, "zero"));
  KJ_SYSCALL(truncate(file.cStr(), 100));
  EXPECT_EQ(compare(), Comparison::DAMAGED);
  backup();
  EXPECT_EQ(compare(), Comparison::SAME);
  KJ_SYSCALL(truncate(path.cStr(), 0));
  KJ_SYSCALL(truncate(path.cStr(), kSize));
  EXPECT_NE(restore().find("is empty"), std::string::npos);
  EXPECT_EQ(Device(path).content(), Content::EMPTY);
}

// Catches: a volume of a document that was erased by accident and is lost in spite of its backup.
TEST_F(HeaderFile, ErasedVolumeOfADocumentGetsItsHeaderBack) {
  file = kj::str(folder, "/u-data");
  format();
  writeXfs();
  backup();
  auto zeros = kj::heapArray<char>(16u << 20);
  memset(zeros.begin(), 0, zeros.size());
  write(path, 0, zeros);
  EXPECT_EQ(restore(), "");
  EXPECT_TRUE(opens(0, "zero"));
  EXPECT_EQ(compare(), Comparison::SAME);
}

}  // namespace
}  // namespace talos::luks
