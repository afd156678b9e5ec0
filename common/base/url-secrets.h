// Hides the secrets of URLs: the password of scheme://user:password@host, and for the kernel's
// parameter talos.config also the query, which may hold a token. Messages and logs quote URLs only
// after this.
//
// Pure and total: any bytes have an answer, and nothing else in them changes.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos {

// From, and up to but not including.
struct TextRange {
  size_t begin, end;
};
// Where the passwords of URLs are in a text; all before the @ where there is no user name. A
// password may itself contain an @.
kj::Vector<TextRange> urlPasswords(kj::ArrayPtr<const char> text);

// The same text with *** in their place.
kj::String withoutUrlPasswords(kj::ArrayPtr<const char> text);

// The kernel's command line, or a line of its log that quotes it or a part of it: of every value of
// talos.config only scheme, host, port and path are left, "?***" stands for a query or fragment.
kj::String withoutArgumentSecrets(kj::ArrayPtr<const char> text);

// The name of an image: "https://host/path?query#digest" without the query, and the query apart. Of
// anything else: itself.
struct ImageName {
  kj::String name, query;
};
ImageName splitImageName(kj::StringPtr image);

}  // namespace talos
