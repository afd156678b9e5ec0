// For tests: a key server that answers as the reference server of sidero.kms.KMSService does. It
// encrypts with AES-256-GCM and a key for each machine: 12 bytes of nonce, the 32 bytes, 16 bytes
// of tag. Other sizes are InvalidArgument; for an unknown machine, and bytes that it has not
// sealed, it answers with random ones.
#pragma once

#include <kj/debug.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <functional>
#include <map>
#include <string>

#include "common/grpc-messages/protobuf-wire.h"
#include "common/grpc/grpc-server.h"

namespace talos::machined {

class TestKms final : public grpc::GrpcHandler {
 public:
  explicit TestKms(std::initializer_list<const char*> nodes) {
    for (auto node : nodes) keys[node] = random(32);
  }

  std::map<std::string, std::string> keys;  // by the UUID of the machine
  unsigned seals = 0, unseals = 0;
  grpc::GrpcStatus refusal;  // if its code is not 0
  bool silent = false;
  // Replaces the bytes of an answer.
  std::function<std::string(const std::string& method, std::string bytes)> changes =
      [](const std::string&, std::string bytes) { return bytes; };
  // Replaces the message of an answer.
  std::function<std::string(std::string message)> spoils = [](std::string m) { return m; };

  // Serves one connection until its end.
  kj::Promise<void> serve(kj::Timer& timer, kj::Own<kj::AsyncIoStream> stream) {
    return grpc::serveGrpc(timer, kj::mv(stream), *this).ignoreResult();
  }

  kj::Promise<grpc::GrpcStatus> call(grpc::GrpcCall& call) override {
    std::string method(call.path().cStr());
    std::string node, data;
    KJ_IF_MAYBE (message, co_await call.receive()) read(*message, node, data);
    if (silent) co_await kj::Promise<void>(kj::NEVER_DONE);
    if (refusal.code != 0) co_return grpc::GrpcStatus{refusal.code, kj::str(refusal.message)};
    std::string answer;
    if (method == "/sidero.kms.KMSService/Seal") {
      ++seals;
      if (data.size() != 32) co_return grpc::GrpcStatus{3, kj::str("incorrect data length")};
      answer = keys.count(node) == 0 ? random(60) : seal(keys[node], data);
    } else if (method == "/sidero.kms.KMSService/Unseal") {
      ++unseals;
      if (data.size() != 60) co_return grpc::GrpcStatus{3, kj::str("incorrect data length")};
      if (keys.count(node) > 0) answer = unseal(keys[node], data);
      if (answer.empty()) answer = random(32);
    } else {
      co_return grpc::GrpcStatus{12, kj::str("unknown method")};
    }
    answer = changes(method, answer);
    grpcapi::WireWriter out;
    out.bytes(1, kj::arrayPtr(answer.data(), answer.size()).asBytes());
    auto bytes = out.finish();
    auto message = spoils({reinterpret_cast<const char*>(bytes.begin()), bytes.size()});
    co_await call.send(kj::heapArray(kj::arrayPtr(message.data(), message.size()).asBytes()));
    co_return grpc::GrpcStatus();
  }

  static std::string random(size_t size) {
    std::string bytes(size, 0);
    KJ_REQUIRE(RAND_bytes(bytesOf(bytes), static_cast<int>(size)) == 1);
    return bytes;
  }

 private:
  static constexpr size_t kNonce = 12, kTag = 16;

  static unsigned char* bytesOf(std::string& text) {
    return reinterpret_cast<unsigned char*>(text.data());
  }
  static void read(kj::ArrayPtr<const kj::byte> message, std::string& node, std::string& data) {
    grpcapi::WireReader reader(message);
    for (auto field = reader.next(); field != nullptr; field = reader.next()) {
      auto& it = KJ_ASSERT_NONNULL(field);
      auto& to = it.number == 1 ? node : data;
      to.assign(reinterpret_cast<const char*>(it.bytes.begin()), it.bytes.size());
    }
  }

  struct Cipher {
    EVP_CIPHER_CTX* it = EVP_CIPHER_CTX_new();
    ~Cipher() { EVP_CIPHER_CTX_free(it); }
  };
  static std::string seal(std::string& key, std::string& secret) {
    auto nonce = random(kNonce);
    std::string out(secret.size(), 0), tag(kTag, 0);
    Cipher cipher;
    int size = 0;
    EVP_EncryptInit_ex(cipher.it, EVP_aes_256_gcm(), nullptr, bytesOf(key), bytesOf(nonce));
    EVP_EncryptUpdate(cipher.it, bytesOf(out), &size, bytesOf(secret),
                      static_cast<int>(secret.size()));
    EVP_EncryptFinal_ex(cipher.it, bytesOf(out) + size, &size);
    KJ_REQUIRE(EVP_CIPHER_CTX_ctrl(cipher.it, EVP_CTRL_GCM_GET_TAG, kTag, tag.data()) == 1);
    return nonce + out + tag;
  }
  // Returns "" for bytes that this key has not sealed.
  static std::string unseal(std::string& key, std::string& sealed) {
    std::string out(sealed.size() - kNonce - kTag, 0);
    auto tag = sealed.substr(sealed.size() - kTag);
    Cipher cipher;
    int size = 0;
    EVP_DecryptInit_ex(cipher.it, EVP_aes_256_gcm(), nullptr, bytesOf(key), bytesOf(sealed));
    EVP_DecryptUpdate(cipher.it, bytesOf(out), &size, bytesOf(sealed) + kNonce,
                      static_cast<int>(out.size()));
    EVP_CIPHER_CTX_ctrl(cipher.it, EVP_CTRL_GCM_SET_TAG, kTag, tag.data());
    if (EVP_DecryptFinal_ex(cipher.it, bytesOf(out) + size, &size) != 1) return "";
    return out;
  }
};

}  // namespace talos::machined
