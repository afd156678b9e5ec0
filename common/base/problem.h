// A user's mistake, as data: problems are collected and reported together, and never abort.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos {

struct Problem {
  enum class Severity { kError, kWarning };
  Severity severity = Severity::kError;
  kj::String file;      // as the user named it; empty if there is no file
  unsigned line = 0;    // from 1; 0 if the problem has no place
  unsigned column = 0;  // from 1
  kj::String path;      // machine.network.interfaces[0].cidr
  kj::String message;   // the mistake
  kj::String hint;      // the correction; may be empty

  // Returns "controlplane.yaml:31:14: machine.type: "masterr" is not a valid machine type; did you
  // mean "master"?". Passwords in quoted URLs are hidden (url-secrets.h), as the text may be shown
  // to any reader.
  kj::String toString() const;
  Problem clone() const;
};

using Problems = kj::Vector<Problem>;

bool hasErrors(const Problems& problems);

// Returns one line for each problem, in the order of their places.
kj::String render(const Problems& problems);

// Returns the candidate closest to `text` by edit distance, if it is close enough for "did you
// mean".
kj::Maybe<kj::StringPtr> closest(kj::StringPtr text, kj::ArrayPtr<const kj::StringPtr> candidates);

}  // namespace talos
