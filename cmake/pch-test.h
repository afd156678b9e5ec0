// The same with GoogleTest: for tests.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cmake/pch.h"
