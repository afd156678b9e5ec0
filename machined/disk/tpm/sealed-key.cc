#include "machined/disk/tpm/sealed-key.h"

#include <capnp/compat/json.h>
#include <capnp/message.h>
#include <kj/debug.h>
#include <string.h>

#include "common/base/error.h"

namespace talos::tpm {
namespace {

using Json = capnp::json::Value::Reader;

constexpr auto kAlgorithm = "sha256"_kj, kVersion = "1"_kj;
constexpr size_t kMostBlob = 1024, kMostName = 66;  // an algorithm, and a digest of 64 bytes

[[noreturn]] void refuse(kj::StringPtr problem) {
  fail(ErrorKind::kFailedPrecondition,
       kj::str("what the header has of the sealed key is not valid: ", problem));
}

kj::Maybe<Json> parsed(kj::StringPtr text, capnp::MessageBuilder& message) {
  auto root = message.initRoot<capnp::json::Value>();
  if (kj::runCatchingExceptions([&] { capnp::JsonCodec().decodeRaw(text, root); }) != nullptr) {
    return nullptr;
  }
  return Json(root.asReader());
}

kj::Maybe<Json> fieldOf(Json object, kj::StringPtr name) {
  for (auto field : object.getObject()) {
    if (field.getName() == name) return field.getValue();
  }
  return nullptr;
}

kj::StringPtr textOf(Json object, kj::StringPtr name) {
  KJ_IF_MAYBE (value, fieldOf(object, name)) {
    if (value->isString()) return value->getString();
  }
  return nullptr;
}

kj::Array<kj::byte> decoded(kj::StringPtr text, kj::StringPtr name, size_t most) {
  auto bytes = kj::decodeBase64(text);
  if (bytes.hadErrors || bytes.size() == 0 || bytes.size() > most) {
    refuse(kj::str(name, " is missing, or not base64"));
  }
  return kj::mv(bytes);
}

kj::Array<kj::byte> bytesIn(Json object, kj::StringPtr name, size_t most) {
  return decoded(textOf(object, name), name, most);
}

Digest digestIn(kj::StringPtr text, kj::StringPtr name) {
  Digest digest;
  auto bytes = decoded(text, name, digest.size());
  if (bytes.size() != digest.size()) refuse(kj::str(name, " is not a SHA-256"));
  memcpy(digest.data(), bytes.begin(), digest.size());
  return digest;
}

bool isEmptyList(kj::Maybe<Json> value) {
  KJ_IF_MAYBE (list, value) return list->isNull() || (list->isArray() && !list->getArray().size());
  return true;
}

capnp::List<capnp::json::Value>::Reader listIn(Json object, kj::StringPtr name) {
  KJ_IF_MAYBE (value, fieldOf(object, name)) {
    if (value->isArray()) return value->getArray();
    if (value->isNull()) return {};
  }
  refuse(kj::str(name, " is missing"));
}

kj::Array<Pcr> pcrsIn(Json object) {
  auto numbers = listIn(object, "pcrs"), values = listIn(object, "pcr_values");
  if (numbers.size() > kPcrs || numbers.size() != values.size()) {
    refuse("pcrs and pcr_values do not fit");
  }
  auto pcrs = kj::heapArrayBuilder<Pcr>(numbers.size());
  for (auto i : kj::indices(numbers)) {
    auto number = numbers[i].isNumber() ? numbers[i].getNumber() : -1;
    bool after = pcrs.size() == 0 || number > pcrs.back().number;
    // The comparisons are false for what is not a number.
    if (!(number >= 0 && number < kPcrs && number == static_cast<unsigned>(number)) || !after) {
      refuse("pcrs has other numbers than 0 to 23 in ascending order");
    }
    auto value = values[i].isString() ? values[i].getString() : nullptr;
    pcrs.add(Pcr{static_cast<unsigned>(number), digestIn(value, "pcr_values")});
  }
  return pcrs.finish();
}

kj::String encoded(kj::ArrayPtr<const kj::byte> bytes) {
  return kj::str('"', kj::encodeBase64(bytes), '"');
}
kj::String encoded(const Digest& digest) {
  return encoded(kj::arrayPtr(digest.data(), digest.size()));
}

}  // namespace

kj::String userDataOf(const SealedKey& key) {
  auto numbers = KJ_MAP(pcr, key.pcrs) {
    return kj::str(pcr.number);
  };
  auto values = KJ_MAP(pcr, key.pcrs) {
    return encoded(pcr.value);
  };
  return kj::str(R"({"keyslots":[],"sealed_blob_private":)", encoded(key.privatePart),
                 R"(,"sealed_blob_public":)", encoded(key.publicPart), R"(,"pcrs":[)",
                 kj::strArray(numbers, ","), R"(],"pubkey_pcrs":[],"alg":")", kAlgorithm,
                 R"(","encryption_version":")", kVersion, R"(","policy_hash":)",
                 encoded(policyOf(key.pcrs)), R"(,"key_name":)", encoded(key.keyName),
                 R"(,"pcr_values":[)", kj::strArray(values, ","), "]}");
}

kj::String tokenOf(kj::StringPtr type, kj::StringPtr userData) {
  return kj::str(R"({"type":")", type, R"(","keyslots":[],"UserData":)", userData, "}");
}

kj::Maybe<kj::String> userDataIn(kj::StringPtr token) {
  capnp::MallocMessageBuilder message;
  KJ_IF_MAYBE (object, parsed(token, message)) {
    if (!object->isObject()) return nullptr;
    KJ_IF_MAYBE (data, fieldOf(*object, "UserData")) return capnp::JsonCodec().encodeRaw(*data);
  }
  return nullptr;
}

SealedKey readUserData(kj::StringPtr text) {
  if (text.size() > kMostUserData) refuse(kj::str(text.size(), " bytes are too many"));
  capnp::MallocMessageBuilder message;
  auto read = parsed(text, message);
  if (read == nullptr) refuse("it is not JSON");
  auto& object = KJ_ASSERT_NONNULL(read);
  if (!object.isObject()) refuse("it is not an object of JSON");
  // Talos seals a key to the signature of its image, in tokens before 1.12 without a version.
  if (textOf(object, "encryption_version") != kVersion ||
      !isEmptyList(fieldOf(object, "pubkey_pcrs"))) {
    fail(ErrorKind::kFailedPrecondition,
         "the key is sealed to the signature of a unified kernel image, which this system does "
         "not have");
  }
  if (textOf(object, "alg") != kAlgorithm) refuse("alg is not sha256");
  SealedKey key{bytesIn(object, "sealed_blob_private", kMostBlob),
                bytesIn(object, "sealed_blob_public", kMostBlob), pcrsIn(object),
                bytesIn(object, "key_name", kMostName)};
  if (digestIn(textOf(object, "policy_hash"), "policy_hash") != policyOf(key.pcrs)) {
    refuse("policy_hash does not fit pcr_values");
  }
  return key;
}

}  // namespace talos::tpm
