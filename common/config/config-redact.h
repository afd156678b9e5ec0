// Machine configs as they are shown: without their secrets. Pure.
//
// Secret are the keys with $secret in rpc/config.capnp; keys that the schema does not have
// (mistakes that the reader corrects, later versions) and comments, if their name sounds like a
// secret; and passwords, queries and fragments in URLs. Everything else keeps its bytes, its line
// and its column, except behind a secret on the same line. A secret of several lines keeps their
// number.
//
// Arguments of Kubernetes' components, of kernel modules and of the kernel are shown, unless their
// name sounds like a secret: the node shows them to every client, as processes, pods and
// /proc/cmdline. So are labels, annotations and the tags of logs.
//
// A text that is not valid YAML cannot be judged and is not shown at all.
#pragma once

#include <kj/string.h>

namespace talos::config {

// Every secret is "***".
kj::String redact(kj::ArrayPtr<const char> source);

// Two versions of one document, for a diff: a secret, or a hidden part of an URL, that is in both
// but not the same is "*** (old)" and "*** (new)". If one is JSON and the other is not, both are
// written as YAML, with the keys of the schema alone, so that the diff is one of meaning.
struct RedactedPair {
  kj::String from, to;
};
RedactedPair redact(kj::ArrayPtr<const char> from, kj::ArrayPtr<const char> to);

}  // namespace talos::config
