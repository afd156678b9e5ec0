// The backup of a LUKS2 header in a file: what the header was when the node wrote it last, and so what
// it has to be when the volume is opened.
//
// The file has the header up to the data, with zeros where it has neither metadata nor a key, which take no
// room; behind it is the SHA-256 of that. It is replaced whole. While `<file>.changing` is there, the header may be another
// one than the backup: mark() makes that file, on the disk, before a change of the header begins, and the last
// backup() after the change removes it. So after a cut at any write a header that the node itself has
// changed is never taken for one that somebody else has changed.
//
// restore() checks the backup, keeps what it replaces as `<file>.refused`, and writes the header so that it
// can be read only when all of it is there; after a cut it is done again.
#pragma once

#include "machined/luks/device.h"

namespace talos::luks {

// Of the device's header with the backup. kNone: there is no backup, or it is damaged itself.
enum class Comparison { kNone, kSame, kOther, kChanging };
Comparison compareHeader(Device& device, kj::StringPtr file);

void markHeader(kj::StringPtr file);
// `last`: the change is over.
void backupHeader(Device& device, kj::StringPtr file, bool last);
// FailedPrecondition when the backup is not good, or the device is empty.
void restoreHeader(Device& device, kj::StringPtr file);

}  // namespace talos::luks
