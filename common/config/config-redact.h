// Machine configs without their secrets, for display. Pure.
//
// These values are secret: keys with $secret in rpc/config.capnp; keys that the schema does not
// have (mistakes that the reader corrects, later versions) and comments, if their name sounds like
// a secret; and passwords, queries and fragments in URLs. Everything else keeps its bytes, its line
// and its column, except after a secret on the same line. A secret of several lines keeps their
// number.
//
// Arguments of Kubernetes' components, of kernel modules and of the kernel are shown, unless their
// name sounds like a secret: the node shows them to every client, as processes, pods and
// /proc/cmdline. Labels, annotations and the tags of logs are shown for the same reason.
//
// A text that is not valid YAML cannot be judged and is not shown at all.
#pragma once

#include <kj/string.h>

namespace talos::config {

// Replaces every secret by "***".
kj::String redact(kj::ArrayPtr<const char> source);

// Two versions of one document, for a diff: a secret, or a hidden part of a URL, that is in both
// but differs is "*** (old)" and "*** (new)". If one is JSON and the other is not, both are written
// as YAML, with the keys of the schema only, so that the diff shows differences of meaning.
struct RedactedPair {
  kj::String from, to;
};
RedactedPair redact(kj::ArrayPtr<const char> from, kj::ArrayPtr<const char> to);

}  // namespace talos::config
