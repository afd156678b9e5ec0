#include "machined/extensions/image-extensions.h"

#include <string.h>

#include "common/base/error.h"
#include "common/base/file.h"

namespace talos::machined {
namespace {

constexpr size_t kMostBytes = 4u << 20;

}  // namespace

ImageExtensions::ImageExtensions(kj::Array<capnp::word> given) : words(kj::mv(given)) {
  if (words.size() == 0) return;
  message = kj::heap<capnp::FlatArrayMessageReader>(words);
  root = message->getRoot<extension::ImageExtensions>();
}

kj::Own<ImageExtensions> ImageExtensions::read(kj::StringPtr file) {
  KJ_IF_MAYBE (content, tryReadFile(file, kMostBytes)) {
    auto words = kj::heapArray<capnp::word>(content->size() / sizeof(capnp::word));
    memcpy(words.begin(), content->begin(), words.asBytes().size());
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] {
                   capnp::FlatArrayMessageReader(words).getRoot<extension::ImageExtensions>();
                 })) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str(file, " is not a list of system extensions: ", messageOf(*e)));
    }
    return kj::heap<ImageExtensions>(kj::mv(words));
  }
  return kj::heap<ImageExtensions>(nullptr);
}

}  // namespace talos::machined
