// The version floor: the newest version of a system that was ever confirmed on this node. A signed
// image below it is refused, because an old release has the holes that newer ones have fixed, and a
// signature never expires: a registry, a mirror or anyone else who chooses among signed images
// could bring the holes back.
//
// The floor is a value of META, which both systems on the disk share. It is only ever raised, at
// the start of a confirmed system and when a trial is confirmed, each time to the greater of the
// kept version and the running one. So an older system that runs after --force or a rollback does
// not change it; a system older than this value does not know it. After a crash between the
// confirmation and the value, the next start raises it, and so does an upgrade that is requested
// before. A reset of META removes it.
//
// Versions are ordered as in Semantic Versioning: v1.2.3, v1.2.4-beta.1, v1.2.4. But only alpha,
// beta and rc after a dash are pre-releases: another text after it names a customized build of the
// release, and does not count, like text after a plus sign. A missing number is 0. Pure; the text
// may be foreign.
#pragma once

#include <kj/string.h>

namespace talos::machined {

// Returns nullptr if one of them is not such a version.
kj::Maybe<bool> isOlder(kj::StringPtr version, kj::StringPtr than);

// Returns the floor after `running` was confirmed. A text that is not a version is below every
// version.
kj::StringPtr raisedFloor(kj::StringPtr kept, kj::StringPtr running);

// Returns the reason why a signed image of this version is refused; nullptr if it may be written.
kj::Maybe<kj::String> belowFloor(kj::StringPtr version, kj::StringPtr floor);

}  // namespace talos::machined
