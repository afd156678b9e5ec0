#include "machined/disk/installer/digest-list.h"

#include <string.h>

#include "common/base/error.h"
#include "common/base/lines.h"

namespace talos::install {
namespace {

constexpr size_t kDigits = 64, kMostVersion = 64;

bool isLowerHex(kj::ArrayPtr<const char> text) {
  for (char c : text) {
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
  }
  return true;
}

bool isVersionCharacter(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c != 0 && strchr(".-_+", c) != nullptr);
}

}  // namespace

DigestList::DigestList(kj::ArrayPtr<const char> text) {
  unsigned number = 0;
  for (auto line : Lines(text)) {
    ++number;
    if (line.size() == 0) continue;
    bool good = line.size() > kDigits + 2 && isLowerHex(line.slice(0, kDigits)) &&
                line[kDigits] == ' ' && line[kDigits + 1] == ' ' &&
                memchr(line.begin(), 0, line.size()) == nullptr;
    if (!good) {
      fail(ErrorKind::kInvalidArgument,
           kj::str("SHA256SUMS:", number, ": not a digest and a name, as sha256sum writes them"));
    }
    rows.add(Row{kj::heapString(line.slice(kDigits + 2, line.size())),
                 kj::heapString(line.slice(0, kDigits))});
  }
}

bool DigestList::lists(kj::StringPtr name) const {
  for (auto& row : rows) {
    if (row.name == name) return true;
  }
  return false;
}

void DigestList::check(kj::StringPtr name, kj::StringPtr digest) const {
  for (auto& row : rows) {
    if (row.name != name) continue;
    if (row.digest == digest) return;
    fail(ErrorKind::kInvalidArgument, kj::str(name, " is damaged or cut off: its SHA-256 is ",
                                              digest, ", and SHA256SUMS says ", row.digest));
  }
  fail(ErrorKind::kInvalidArgument, kj::str("SHA256SUMS does not list ", name));
}

kj::String imageVersion(kj::ArrayPtr<const char> text) {
  if (text.size() > 0 && text.back() == '\n') text = text.slice(0, text.size() - 1);
  bool good = text.size() > 0 && text.size() <= kMostVersion;
  for (char c : text) good = good && isVersionCharacter(c);
  if (!good) fail(ErrorKind::kInvalidArgument, "the file version is not a version");
  return kj::heapString(text);
}

}  // namespace talos::install
