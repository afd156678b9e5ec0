#include "backupd/s3-answers.h"

#include <kj/debug.h>

#include "common/base/error.h"
#include "common/text/foreign-text.h"
#include "common/xml/xml.h"

namespace talos::backupd {
namespace {

constexpr size_t kLongestText = 300;

kj::String textIn(kj::StringPtr element, kj::ArrayPtr<const char> body) {
  kj::String text;
  // Proxies answer with pages of HTML.
  auto failure = kj::runCatchingExceptions(
      [&]() { text = kj::heapString(textOf(element, "the answer", body)); });
  return failure == nullptr ? kj::mv(text) : kj::String();
}

}  // namespace

S3Page readS3Page(kj::ArrayPtr<const char> body) {
  constexpr auto kList = "ListBucketResult"_kj;
  if (elementsCalled(kList, "the list of the store", body).size() != 1) {
    fail(ErrorKind::kInvalidArgument, "the store answered with no list of objects");
  }
  S3Page page;
  for (auto& key : elementsCalled("Key", "the list of the store", body)) {
    page.keys.add(kj::heapString(key.text));
  }
  auto more = textOf("IsTruncated", "the list of the store", body);
  page.more = kj::heapString(more) == "true";
  return page;
}

kj::String readS3Error(unsigned status, kj::StringPtr statusText, kj::ArrayPtr<const char> body) {
  auto text = kj::str(status, " ", statusText);
  for (auto element : {"Code"_kj, "Message"_kj}) {
    auto found = textIn(element, body);
    if (found.size() > 0) text = kj::str(text, ": ", found);
  }
  return fieldText(text, kLongestText);
}

}  // namespace talos::backupd
