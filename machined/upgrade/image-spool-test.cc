// An image in a spool file, on a disk that can fail.
#include "machined/upgrade/image-spool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "common/base/error.h"

namespace talos::machined {
namespace {

using testing::HasSubstr;

struct Signer {
  EVP_PKEY* key;
  explicit Signer(bool ed25519)
      : key(ed25519 ? EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519")
                    : EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256")) {}
  ~Signer() { EVP_PKEY_free(key); }
  KJ_DISALLOW_COPY_AND_MOVE(Signer);

  kj::Own<pki::VerifyKey> verifier() const {
    BIO* bio = BIO_new(BIO_s_mem());
    KJ_DEFER(BIO_free(bio));
    KJ_ASSERT(PEM_write_bio_PUBKEY(bio, key) == 1);
    char* data;
    auto size = BIO_get_mem_data(bio, &data);
    return kj::heap<pki::VerifyKey>(kj::heapString(data, static_cast<size_t>(size)));
  }
  kj::Array<kj::byte> sign(const std::string& text) const {
    EVP_MD_CTX* context = EVP_MD_CTX_new();
    KJ_DEFER(EVP_MD_CTX_free(context));
    auto* digest = EVP_PKEY_get_base_id(key) == EVP_PKEY_ED25519 ? nullptr : EVP_sha256();
    size_t size = 128;
    auto out = kj::heapArray<kj::byte>(size);
    auto* bytes = reinterpret_cast<const kj::byte*>(text.data());
    KJ_ASSERT(EVP_DigestSignInit(context, nullptr, digest, nullptr, key) == 1 &&
              EVP_DigestSign(context, out.begin(), &size, bytes, text.size()) == 1);
    return kj::heapArray(out.slice(0, size));
  }
};

struct SpoolTest : testing::Test {
  ~SpoolTest() noexcept override {}
  kj::AsyncIoContext io = kj::setupAsyncIo();
  UvLoop uv{io.unixEventPort, io.provider->getTimer()};
  kj::Own<ImageSpool> spool = ImageSpool::make(uv, "/tmp").wait(io.waitScope);

  void add(const std::string& text) {
    spool->add(kj::heapArray(kj::arrayPtr(text.data(), text.size()).asBytes())).wait(io.waitScope);
  }
  template <typename T>
  std::string problem(kj::Promise<T> promise) {
    std::string text;
    promise.ignoreResult()
        .catch_([&](kj::Exception&& e) { text = messageOf(e).cStr(); })
        .wait(io.waitScope);
    return text;
  }
};

std::string large() {
  std::string text(3 << 20, '.');  // several reads, the last of which is partial
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i / 4096);
  return text + "the end";
}

}  // namespace

// Catches: a signature of which only the first megabyte counts, or parts that are verified twice.
TEST_F(SpoolTest, SignaturesAreOfAllOfIt) {
  auto text = large();
  add(text.substr(0, 1000));
  add(text.substr(1000));
  for (bool ed25519 : {false, true}) {
    Signer signer(ed25519);
    EXPECT_TRUE(spool->hasSignature(signer.verifier(), signer.sign(text)).wait(io.waitScope));
    auto other = text;
    other.back() = 'x';
    EXPECT_FALSE(spool->hasSignature(signer.verifier(), signer.sign(other)).wait(io.waitScope));
    EXPECT_FALSE(
        spool->hasSignature(Signer(ed25519).verifier(), signer.sign(text)).wait(io.waitScope));
  }
}

// Catches: a disk that does not return the written bytes and so ends the brain by a signal; an
// image that takes all memory.
TEST_F(SpoolTest, WhatCannotBeReadIsAnError) {
  auto text = large();
  add(text);
  Signer whole(true), pieces(false);
  EXPECT_THAT(problem(spool->hasSignature(whole.verifier(), whole.sign(text), 2 << 20)),
              HasSubstr("is verified of at most 2 MiB; sign the image with an ECDSA P-256 key"));
  EXPECT_EQ(problem(spool->hasSignature(pieces.verifier(), pieces.sign(text), 2 << 20)), "");
  KJ_SYSCALL(ftruncate(spool->descriptor(), 1 << 20));
  for (auto* signer : {&whole, &pieces}) {
    EXPECT_THAT(problem(spool->hasSignature(signer->verifier(), signer->sign(text))),
                HasSubstr("was truncated while being read"));
  }
  EXPECT_THAT(problem(spool->digest()), HasSubstr("was truncated while being read"));
}

// Catches: bytes of an abandoned attempt, which the disk writes when others were already verified.
TEST_F(SpoolTest, AnotherStartHasAFileOfItsOwn) {
  add("evil and longer");
  int old;
  KJ_SYSCALL(old = dup(spool->descriptor()));
  kj::AutoCloseFd given(old);
  spool->startOver();
  EXPECT_EQ(spool->size(), 0u);
  add("good");
  KJ_SYSCALL(pwrite(given, "evil", 4, 0));
  auto bytes = spool->read(0, 100).wait(io.waitScope);
  EXPECT_EQ(kj::str(bytes.asChars()), "good");
}

}  // namespace talos::machined
