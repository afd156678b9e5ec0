// Hides secrets that a server was sent and may repeat in its answer: *** takes their place. A text
// is escaped and cut only afterwards, so that no part of a secret is left. Pure and total.
#pragma once

#include <kj/string.h>

namespace talos {

// Returns the text without the secret; an empty secret is in no text.
kj::String withoutSecret(kj::StringPtr text, kj::StringPtr secret);
// Returns the text without the value of an HTTP header, and without the part of the value after a
// scheme such as Bearer.
kj::String withoutHeaderValue(kj::StringPtr text, kj::StringPtr value);

}  // namespace talos
