// Hides the secrets of URLs: the password of scheme://user:password@host, and for the kernel's
// parameter talos.config also the query, which may hold a token. Messages and logs quote URLs only
// after this.
//
// Pure and total: the functions accept any bytes, and change nothing else in them.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos {

// Range from `begin` up to but not including `end`.
struct TextRange {
  size_t begin, end;
};
// Returns the ranges of passwords of URLs in a text: everything before the @ if there is no user
// name. A password may itself contain an @.
kj::Vector<TextRange> urlPasswords(kj::ArrayPtr<const char> text);

// Returns the same text with *** in place of the passwords.
kj::String withoutUrlPasswords(kj::ArrayPtr<const char> text);

// Hides secrets in the kernel's command line, or in a line of its log that quotes all or part of
// it: of every value of talos.config only scheme, host, port and path are left, "?***" replaces a
// query or fragment.
kj::String withoutArgumentSecrets(kj::ArrayPtr<const char> text);

// Name of an image: for "https://host/path?query#digest" the name without the query, and the query;
// for any other text the text itself.
struct ImageName {
  kj::String name, query;
};
ImageName splitImageName(kj::StringPtr image);

}  // namespace talos
