// The version floor: the newest version of a system that was ever confirmed on this node. A signed
// image below it is refused, because an old release has the holes that newer ones have mended, and
// a signature has no end: whoever can choose among signed images, such as a registry or a mirror,
// could bring them back.
//
// It is a value of META, which both systems on the disk share. It is only ever raised: at the start
// of a confirmed system and when a trial is confirmed, each time to the greater of what is kept and
// what runs. So an older system that runs after --force or a rollback leaves it where it is; one
// from before this value existed does not know it. A crash between the confirmation and the value
// leaves it to the next start, and an upgrade that is asked for meanwhile raises it first. It goes
// with META, in a reset of that.
//
// Versions are ordered as Semantic Versioning does: v1.2.3, v1.2.4-beta.1, v1.2.4. But only alpha,
// beta and rc behind a dash are pre-releases: another text there names a customized build of the
// release, and does not count, as what follows a plus sign. A number that is missing is 0. Pure;
// the text may be foreign.
#pragma once

#include <kj/string.h>

namespace talos::machined {

// None when one of them is not such a version.
kj::Maybe<bool> isOlder(kj::StringPtr version, kj::StringPtr than);

// The floor after `running` was confirmed. A text that is no version is below every version.
kj::StringPtr raisedFloor(kj::StringPtr kept, kj::StringPtr running);

// The reason why a signed image of this version is refused. None: it may be written.
kj::Maybe<kj::String> belowFloor(kj::StringPtr version, kj::StringPtr floor);

}  // namespace talos::machined
