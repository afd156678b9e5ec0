#include "common/base/url-secrets.h"

#include <string.h>

namespace talos {
namespace {

constexpr kj::StringPtr kHidden = "***"_kj;
constexpr kj::StringPtr kArgument = "talos.config="_kj;

bool isBlank(char c) {
  return static_cast<unsigned char>(c) <= ' ';
}

bool standsAt(kj::ArrayPtr<const char> text, size_t at, kj::StringPtr wanted) {
  return at + wanted.size() <= text.size() &&
         memcmp(text.begin() + at, wanted.begin(), wanted.size()) == 0;
}

// Returns the end of the value that starts at `at`. The kernel takes blanks within quotes as part
// of the value, and the quotes may enclose the whole argument.
size_t endOfValue(kj::ArrayPtr<const char> text, size_t at, bool quoted) {
  bool inQuotes = quoted;
  for (; at < text.size(); ++at) {
    if (text[at] == '"') {
      if (quoted) return at;
      inQuotes = !inQuotes;
    } else if (isBlank(text[at]) && !inQuotes) {
      return at;
    }
  }
  return at;
}

// A value need not be a URL: text before an @ that precedes the first / is a user nevertheless.
void addWithoutSecrets(kj::Vector<char>& out, kj::ArrayPtr<const char> value) {
  size_t stop = 0;
  while (stop < value.size() && value[stop] != '?' && value[stop] != '#') ++stop;
  auto plain = value.slice(0, stop);
  size_t host = 0;
  for (size_t i = 0; i < plain.size() && host == 0; ++i) {
    if (standsAt(plain, i, "://")) host = i + 3;
  }
  size_t begin = host;
  for (size_t i = host; i < plain.size() && plain[i] != '/'; ++i) {
    if (plain[i] == '@') begin = i;
  }
  out.addAll(plain.slice(0, host));
  if (begin > host) out.addAll(kHidden);
  out.addAll(plain.slice(begin, plain.size()));
  if (stop == value.size()) return;
  out.add(value[stop]);
  out.addAll(kHidden);
  if (value[value.size() - 1] == '"') out.add('"');
}

}  // namespace

kj::Vector<TextRange> urlPasswords(kj::ArrayPtr<const char> text) {
  kj::Vector<TextRange> found;
  auto ends = [](char c) { return c == '/' || isBlank(c) || c == '"' || c == '\'' || c == '\\'; };
  for (size_t i = 0; i + 3 <= text.size(); ++i) {
    if (!standsAt(text, i, "://")) continue;
    size_t user = i + 3, colon = 0, at = 0;
    for (size_t k = user; k < text.size() && !ends(text[k]); ++k) {
      if (text[k] == ':' && colon == 0) colon = k;
      if (text[k] == '@') at = k;
    }
    if (at > user) found.add(TextRange{colon == 0 || colon > at ? user : colon + 1, at});
    i = user - 1;
  }
  return found;
}

kj::String withoutUrlPasswords(kj::ArrayPtr<const char> text) {
  kj::Vector<char> out(text.size() + 1);
  size_t done = 0;
  for (auto range : urlPasswords(text)) {
    out.addAll(text.slice(done, range.begin));
    out.addAll(kHidden);
    done = range.end;
  }
  out.addAll(text.slice(done, text.size()));
  return kj::heapString(out.asPtr());
}

kj::String withoutArgumentSecrets(kj::ArrayPtr<const char> text) {
  kj::Vector<char> out(text.size() + 1);
  for (size_t at = 0; at < text.size();) {
    bool begins = at == 0 || isBlank(text[at - 1]) || text[at - 1] == '"';
    if (!begins || !standsAt(text, at, kArgument)) {
      out.add(text[at++]);
      continue;
    }
    size_t value = at + kArgument.size();
    size_t end = endOfValue(text, value, at > 0 && text[at - 1] == '"');
    out.addAll(kArgument);
    addWithoutSecrets(out, text.slice(value, end));
    at = end;
  }
  return kj::heapString(out.asPtr());
}

ImageName splitImageName(kj::StringPtr image) {
  bool url = image.startsWith("http://") || image.startsWith("https://");
  auto fragment = strcspn(image.cStr(), "#");
  auto query = strcspn(image.cStr(), "?");
  if (!url || query >= fragment) return {kj::str(image), kj::String()};
  return {kj::str(image.slice(0, query), image.slice(fragment)),
          kj::str(image.slice(query + 1, fragment))};
}

}  // namespace talos
