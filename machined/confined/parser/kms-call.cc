#include "machined/confined/parser/kms-call.h"

#include <kj/debug.h>
#include <kj/encoding.h>

#include "common/base/error.h"
#include "common/grpc-messages/protobuf-wire.h"
#include "common/grpc/grpc-client.h"
#include "common/memory/secret-array.h"
#include "common/tls/tls.h"
#include "machined/confined/parser/json-fields.h"

namespace talos::parse {
namespace {

using machined::KmsCall, machined::kKmsSecret, machined::kMostKmsSealed;

constexpr auto kSeal = "/sidero.kms.KMSService/Seal"_kj,
               kUnseal = "/sidero.kms.KMSService/Unseal"_kj;
constexpr size_t kMostKmsAnswer = 64u << 10;

[[noreturn]] void refuseSealed(kj::StringPtr problem) {
  fail(ErrorKind::kFailedPrecondition,
       kj::str("what the header has of the sealed key is not valid: ", problem));
}

kj::Array<kj::byte> requestWith(kj::StringPtr node, kj::ArrayPtr<const kj::byte> data) {
  grpcapi::WireWriter out;
  out.text(1, node);
  out.bytes(2, data);
  return out.finish();
}

class KmsConversation {
 public:
  KmsConversation(kj::Timer& timer, const KmsCall& call, kj::Own<kj::AsyncIoStream> connection)
      : node(kj::str(call.node)),
        stream(kj::mv(connection)),
        client(
            timer, kj::str("the server"), [this]() { return dial(); },
            grpc::ConnectionOptions{.scheme = call.secure ? "https"_kj : "http"_kj,
                                    .authority = kj::str(call.authority),
                                    .mostAnswer = kMostKmsAnswer}) {}

  kj::Promise<kj::Array<kj::byte>> seal(kj::ArrayPtr<const kj::byte> secret) {
    auto sealed = co_await ask(kSeal, secret);
    if (sealed.size() == 0 || sealed.size() > kMostKmsSealed) {
      fail(ErrorKind::kInvalidArgument, kj::str("it sealed the key to ", sealed.size(),
                                                " bytes; must be 1 to ", kMostKmsSealed));
    }
    auto again = co_await unseal(sealed);
    if (again.asPtr() != secret) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str("it does not return the key that it has sealed; it may not know this machine, ",
                   node));
    }
    co_return kj::mv(sealed);
  }

  kj::Promise<kj::Array<kj::byte>> unseal(kj::ArrayPtr<const kj::byte> sealed) {
    auto secret = co_await ask(kUnseal, sealed);
    if (secret.size() != kKmsSecret) {
      fail(ErrorKind::kInvalidArgument,
           kj::str("it unsealed a key of ", secret.size(), " bytes; must be ", kKmsSecret));
    }
    co_return kj::mv(secret);
  }

 private:
  kj::String node;
  kj::Maybe<kj::Own<kj::AsyncIoStream>> stream;
  grpc::Client client;

  kj::Promise<kj::Own<kj::AsyncIoStream>> dial() {
    KJ_IF_MAYBE (s, stream) {
      auto only = kj::mv(*s);
      stream = nullptr;
      return kj::mv(only);
    }
    return error(ErrorKind::kUnavailable, "the server closed the connection");
  }

  kj::Promise<kj::Array<kj::byte>> ask(kj::StringPtr method, kj::ArrayPtr<const kj::byte> data) {
    auto answer =
        co_await client.unary(method, nullptr, machined::kKmsTimeout, requestWith(node, data));
    KJ_DEFER(zeroize(answer));
    co_return bytesInAnswer(answer);
  }
};

kj::Promise<kj::Own<kj::AsyncIoStream>> secured(kj::Own<kj::AsyncIoStream> stream,
                                                const KmsCall& call) {
  TlsVerifier verifier(call.authorities);
  co_return co_await verifier.connectWithAlpn("h2", kj::mv(stream), call.host);
}

}  // namespace

kj::Array<kj::byte> sealedKeyIn(kj::StringPtr userData) {
  if (userData.size() > machined::kMostKmsUserData) {
    refuseSealed(kj::str(userData.size(), " bytes are too many"));
  }
  kj::Own<capnp::MallocMessageBuilder> message;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { message = parseJson(userData.asArray()); })) {
    refuseSealed(messageOf(*e));
  }
  auto text = stringOf(message->getRoot<capnp::json::Value>().asReader(), "sealedData");
  auto bytes = kj::decodeBase64(text);
  if (bytes.hadErrors || bytes.size() == 0 || bytes.size() > kMostKmsSealed) {
    refuseSealed("sealedData is missing, or not base64");
  }
  return kj::mv(bytes);
}

kj::Array<kj::byte> bytesInAnswer(kj::ArrayPtr<const kj::byte> answer) {
  kj::Array<kj::byte> bytes;
  grpcapi::WireReader reader(answer);
  for (auto field = reader.next(); field != nullptr; field = reader.next()) {
    auto& it = KJ_ASSERT_NONNULL(field);
    // The last one counts, as everywhere in protobuf.
    if (it.number == 1 && it.type == grpcapi::WireType::kBytes) bytes = secretArray(it.bytes);
  }
  return bytes;
}

kj::Promise<kj::Array<kj::byte>> callKms(kj::Timer& timer, kj::Own<kj::AsyncIoStream> connection,
                                         const KmsCall& call,
                                         kj::Function<void(kj::StringPtr doing)> progress) {
  bool seals = call.userData.size() == 0;
  if (seals) KJ_REQUIRE(call.secret.size() == kKmsSecret, "not a key");
  kj::Array<kj::byte> sealed;
  if (!seals) sealed = sealedKeyIn(call.userData);
  if (call.secure) {
    progress("waiting for the TLS handshake");
    connection = co_await secured(kj::mv(connection), call);
  }
  progress("waiting for the answer");
  KmsConversation conversation(timer, call, kj::mv(connection));
  if (seals) co_return co_await conversation.seal(call.secret);
  co_return co_await conversation.unseal(sealed);
}

}  // namespace talos::parse
