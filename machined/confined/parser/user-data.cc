#include "machined/confined/parser/user-data.h"

#include <kj/encoding.h>

#include "common/base/error.h"
#include "common/memory/zeroize.h"
#include "common/text/ascii.h"
#include "machined/confined/parser/config-text.h"
#include "machined/platforms/cloud-config.h"
#include "machined/platforms/readers/file-platforms.h"

namespace talos::parse {
namespace {

using platforms::Encoding;

// Returns nullptr if the content is not base64.
kj::Maybe<kj::Array<char>> decoded(kj::ArrayPtr<const char> content) {
  auto bytes = kj::decodeBase64(content);
  KJ_DEFER(zeroize(bytes.asChars()));
  if (bytes.hadErrors) return nullptr;
  return kj::heapArray(bytes.asChars());
}

// Reads the user data of OpenNebula. Without an encoding, user data that is base64 as a whole is
// decoded.
kj::Array<char> readContextData(kj::ArrayPtr<const char> content) {
  platforms::Context context(content);
  auto valueOf = [&](kj::StringPtr key, kj::StringPtr other) {
    auto value = context.value(key);
    return value.size() > 0 ? value : context.value(other);
  };
  auto encoding = valueOf("USERDATA_ENCODING", "USER_DATA_ENCODING");
  if (encoding.size() > 0 && encoding != "base64") {
    fail(ErrorKind::kInvalidArgument,
         kj::str("USERDATA_ENCODING: \"", encoding,
                 "\" is not an encoding of user data; use base64, or leave it out for text"));
  }
  return readUserData(encoding.size() > 0 ? Encoding::kBase64 : Encoding::kMaybeBase64,
                      kj::heapArray(valueOf("USER_DATA", "USERDATA").asArray()));
}

}  // namespace

kj::Array<char> readUserData(Encoding encoding, kj::Array<char> content) {
  KJ_DEFER(zeroize(content));
  if (encoding == Encoding::kContext) {
    return readContextData(content);
  }
  if (encoding == Encoding::kOvfEnvironment) {
    return readUserData(Encoding::kBase64, platforms::azureCustomData(content));
  }
  if (encoding == Encoding::kOvfProperties) {
    return readOvfProperties(platforms::kConfigProperties, platforms::kOvfFile, content);
  }
  // cloud-init accepts plain text where a machine config is base64.
  if (trimmed(content).size() == 0 || platforms::isCloudConfig(content)) return nullptr;
  auto text = kj::heapArray(content.asPtr());
  if (encoding != Encoding::kPlain) {
    KJ_IF_MAYBE (bytes, decoded(content)) {
      zeroize(text);
      text = kj::mv(*bytes);
    } else {
      if (encoding == Encoding::kBase64OrNone) return nullptr;
      if (encoding == Encoding::kBase64) {
        fail(ErrorKind::kInvalidArgument, "the user data is not base64, as it is on this platform");
      }
    }
  }
  text = unpack(kj::mv(text));
  if (trimmed(text).size() == 0 || platforms::isCloudConfig(text)) return nullptr;
  requireText(text);
  return text;
}

kj::Array<char> readOvfProperties(kj::ArrayPtr<const kj::StringPtr> keys, kj::StringPtr what,
                                  kj::ArrayPtr<const char> environment) {
  for (auto key : keys) {
    auto value = platforms::ovfProperty(key, what, environment);
    kj::Array<char> text;
    KJ_IF_MAYBE (e, kj::runCatchingExceptions(
                        [&]() { text = readUserData(Encoding::kBase64, kj::mv(value)); })) {
      fail(kindOf(*e), kj::str("property ", key, " of ", what, ": ", messageOf(*e)));
    }
    if (text.size() > 0) return text;
  }
  return nullptr;
}

}  // namespace talos::parse
