// The answers of a key server, and the token of a key that a server has sealed, in the header of a
// foreign disk.
//
// link: machined-confined-parser
#include <kj/debug.h>
#include <kj/encoding.h>

#include "common/base/error.h"
#include "machined/confined/parser/kms-call.h"
#include "tests/fuzz/fuzz-target.h"

// Any bytes, as an answer and as a token. A sealed key that is read is written as the same key.
FUZZ_TARGET(kmsanswer) {
  using namespace talos;
  auto bytes = kj::heapArray<kj::byte>(data, size);  // a sanitizer sees its end
  try {
    KJ_ASSERT(parse::bytesInAnswer(bytes).size() <= size);
  } catch (const kj::Exception& e) {
    KJ_ASSERT(kindOf(e) == ErrorKind::kInvalidArgument, e);
  }
  kj::Maybe<kj::Array<kj::byte>> sealed;
  try {
    sealed = parse::sealedKeyIn(kj::heapString(bytes.asChars()));
  } catch (const kj::Exception& e) {
    KJ_ASSERT(kindOf(e) == ErrorKind::kFailedPrecondition, e);
  }
  KJ_IF_MAYBE (key, sealed) {
    KJ_ASSERT(key->size() > 0 && key->size() <= machined::kMostKmsSealed);
    auto again = kj::str("{\"sealedData\":\"", kj::encodeBase64(*key), "\"}");
    KJ_ASSERT(parse::sealedKeyIn(again).asPtr() == key->asPtr());
  }
  return 0;
}
