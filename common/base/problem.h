// A user's mistake, as data: collected and reported together, never an abort.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos {

struct Problem {
  enum class Severity { kError, kWarning };
  Severity severity = Severity::kError;
  kj::String file;      // as the user named it; empty if there is none
  unsigned line = 0;    // from 1; 0 if it has no place
  unsigned column = 0;  // from 1
  kj::String path;      // machine.network.interfaces[0].cidr
  kj::String message;   // what is wrong
  kj::String hint;      // what would be right; may be empty

  // Passwords in quoted URLs are hidden (url-secrets.h): the text may be shown to anybody.
  // "controlplane.yaml:31:14: machine.type: "masterr" is not a valid machine type; did you mean
  // "master"?"
  kj::String toString() const;
  Problem clone() const;
};

using Problems = kj::Vector<Problem>;

bool hasErrors(const Problems& problems);

// One line each, in the order of their places.
kj::String render(const Problems& problems);

// The candidate closest to `text` by edit distance, if it is close enough for "did you mean".
kj::Maybe<kj::StringPtr> closest(kj::StringPtr text, kj::ArrayPtr<const kj::StringPtr> candidates);

}  // namespace talos
