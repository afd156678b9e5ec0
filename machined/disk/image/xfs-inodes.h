// Makes a new XFS the same each time: mkfs.xfs takes its UUID as an option, but writes the time of
// day and random generation numbers into the inodes.
//
// It knows the inodes of version 5 without large timestamps (bigtime=0), as makeBootXfs() makes
// them, from "XFS Algorithms & Data Structures", chapter "Inodes", and recognises an inode by its
// checksum. The file system must never have been mounted, because replaying a log would undo the
// changes.
#pragma once

#include <kj/array.h>
#include <kj/string.h>
#include <stdint.h>

namespace talos::install {

// Gives this date and one generation to all inodes in `bytes`, a piece of the file system that
// begins and ends between two inodes. Returns the number of inodes.
size_t setInodeDates(kj::ArrayPtr<kj::byte> bytes, uint32_t date);
// Does the same in a whole file system; blocks.
void setInodeDates(kj::StringPtr file, uint32_t date);

}  // namespace talos::install
