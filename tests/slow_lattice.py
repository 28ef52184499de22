"""The lattice of covers in plain Python: one symbol, one bit at a time, from docs/sequences.md; shares no code with it.

Bit histories are tuples (zeros, ones, newest bit), maps are dictionaries, integers are Python's own.
"""

import math

MASK = 2**64 - 1
BOUNDS = (20, 48, 15, 8, 6, 5)
NEW = (0, 0, 0)


def clamp(value, bound):
    return max(-bound, min(bound, value))


def squash(d):
    """Log-odds in 1/256 to a probability in 1/65536."""
    d = max(-3072, min(3071, d))
    return max(1, min(65535, round(65536 / (1 + math.exp(-d / 256)))))


def stretch(p):
    """A probability in 1/4096 to log-odds in 1/256."""
    return clamp(round(256 * math.log((p + 0.5) / (4095.5 - p))), 2047)


def mixed(a, b):
    x = ((a + 0x632BE59BD9B4E019) * 0x9E3779B97F4A7C15) & MASK
    x ^= x >> 32
    x = ((x + b + 1) * 0xD6E8FEB86659FD93) & MASK
    return x ^ (x >> 29)


# ---- bit histories --------------------------------------------------------------------------------------------------


def representable(n0, n1):
    small, large = sorted((n0, n1))
    return small < len(BOUNDS) and large <= BOUNDS[small]


def keeps_newest(n0, n1):
    return min(n0, n1) > 0 and n0 + n1 <= 17


def history(n0, n1, newest):
    return (n0, n1, newest if keeps_newest(n0, n1) else 0)


def after(state, bit):
    """The count of the bit grows by one; where the other is large it is reduced; then both until they fit."""
    counts = list(state[:2])
    other = 1 - bit
    big_first = [0, 1] if counts[0] >= counts[1] else [1, 0]  # a tie counts as zeros first
    counts[other] = [0, 1, 2, 3, 4, 5, 5, 6][counts[other]] if counts[other] < 8 else 7
    counts[bit] += 1
    large, small = counts[big_first[0]], counts[big_first[1]]
    while not representable(large, small):
        if small < 2:
            large -= 1
        else:
            large, small = (large * (small - 1) + small // 2) // small, small - 1
    counts[big_first[0]], counts[big_first[1]] = large, small
    return history(*counts, bit)


def halved(state):
    n0, n1 = (state[0] + 1) // 2, (state[1] + 1) // 2
    while not representable(n0, n1):
        n0, n1 = (n0 - 1, n1) if n0 > n1 else (n0, n1 - 1)
    return history(n0, n1, state[2])


def seniority(state):
    """Histories in the order of their numbers: by how much was seen, then fewer ones first."""
    return (state[0] + state[1], -state[0], state[2])


# ---- periods --------------------------------------------------------------------------------------------------------


def find_period(differences, newest_first, known, period):
    """``differences`` (1025,) is changed; ``newest_first`` are the symbols back from here."""
    longest = min(1024, known - 1024)
    for distance in range(1, longest + 1):
        for k in range(128):
            place = 8 * k + k % 8
            differences[distance] += abs(newest_first[place] - newest_first[place + distance])
    differences[0] += 1

    def dip(distance):
        reach = 1 if distance < 8 else 3
        return 1 - (differences[distance] + 1) / (min(differences[distance - reach], differences[distance + reach]) + 1)

    best, found = 0.15, 0
    if 0 < period < longest - 3:
        best, found = max(best, dip(period)), period
    if differences[0] >= 4:
        for distance in range(2, longest - 3):
            if dip(distance) > best * (1.25 if found else 1):
                best, found = dip(distance), distance
    for distance in range(1, 1025):
        differences[distance] -= differences[distance] >> 4
    return found


# ---- the lattice ----------------------------------------------------------------------------------------------------


class SlowLattice:
    """A lattice with the hashing covers 0 .. 16 and numbers from 17 on for functions; ``buckets`` of four slots."""

    def __init__(self, covers, buckets, ring, matches, *, match=True, period=0, asleep=(), halvings=0.0):
        self.covers, self.buckets, self.match = list(covers), buckets, match
        self.period, self.asleep, self.halvings = period, set(asleep), halvings
        self.slots = [[None] * 4 for _ in range(buckets)]  # None, or [check byte, {node: history}]
        self.maps, self.zero = {}, {}
        self.weights, self.finals, self.refined = {}, {}, {}
        self.hits = [int((1 - 1 / (length + 1.5)) * 2**22) for length in range(64)]
        self.ring, self.places = [0] * ring, [[0] * matches, [0] * matches]
        self.position, self.use = 0, [0.0] * (len(self.covers) + 2)
        self.start_document()

    def start_document(self):
        self.document, self.last, self.word, self.previous = 0, 0, 0, 0

    # ---- contexts ----

    def back(self, distance):
        known = min(self.document, len(self.ring))
        return self.ring[(self.position - distance) % len(self.ring)] if 0 < distance <= known else 0

    def hashes(self, extra):
        n, last, period = min(self.document, len(self.ring)), self.last, self.period or 4
        out = {}
        for k, order in enumerate((1, 2, 3, 4, 6, 8)):
            begun = min(n, 8) << 32 if n < order else 0
            out[k] = mixed(order + begun, last % 256**order)
        c1, c23, c34 = last % 256, (last >> 8) % 65536, (last >> 16) % 65536
        out[6], out[7] = mixed(self.word, c1 + 0x700), mixed(self.word, self.previous)
        out[8], out[9], out[10] = mixed(9, c23), mixed(10, c34), mixed(11, c1 | c34 << 8)
        above, above2 = self.back(period), self.back(2 * period)
        left, right = self.back(period + 1), self.back(period - 1)
        column, p = n % period, period << 8
        out[11], out[12] = mixed(12 + p, above | above2 << 8), mixed(13 + p, above | c1 << 8)
        out[13], out[14] = mixed(14 + p, column | c1 << 16), mixed(15 + p, column | above << 16)
        out[15] = mixed(16 + p, c1 | above << 8 | left << 16)
        out[16] = mixed(17 + p, above | right << 8 | c1 << 16)
        return {**out, **{17 + k: number for k, number in enumerate(extra)}}

    def find_match(self):
        """The symbol that followed the longest match, its length as a bucket, and where this place belongs."""
        expected, length, slots = -1, 0, [-1, -1]
        known, size = min(self.document, len(self.ring)), len(self.ring)
        if not self.match:
            return expected, length, slots
        for which, shortest in enumerate((12, 6)):
            if known < shortest:
                continue
            h = shortest
            for back in range(1, shortest + 1):
                h = ((h + self.ring[(self.position - back) % size] + 1) * 0x9E3779B97F4A7C15) & MASK
                h ^= h >> 31
            slots[which] = ((h >> 32) * len(self.places[which])) >> 32
            place = self.places[which][slots[which]] - 1
            if expected >= 0 or place < 0:
                continue
            same = 0
            while (
                same < min(known, 48)
                and self.ring[(place - same - 1) % size] == self.ring[(self.position - same - 1) % size]
            ):
                same += 1
            if same >= shortest:
                expected = self.ring[place % size]
                length = min(same, 16) if same < 32 else 18 if same >= 48 else 17
        return expected, length, slots

    def slot(self, number, half, learning):
        """Where the histories of one context's half of a symbol are; without learning nothing is taken from anybody.

        A place, for of two contexts of one symbol the second may take the slot of the first: then both use it.
        """
        h = mixed(number, (half * 0xA24BAED4963EE407) & MASK)
        bucket, check, first = self.slots[((h >> 32) * self.buckets) >> 32], h % 256, (h >> 8) % 4
        places = [first ^ k for k in range(4)]
        for place in places:
            if bucket[place] and bucket[place][0] == check and bucket[place][1].get(1, NEW) != NEW:
                return bucket, place
        if not learning:
            return [[None, {}]], 0
        visits = [seniority(bucket[place][1].get(1, NEW) if bucket[place] else NEW) for place in places]
        victim = places[visits.index(min(visits))]
        if (h >> 12) % 32 == 0 and min(visits) > seniority(NEW):
            victim = first
        bucket[victim] = [check, {}]
        return bucket, victim

    # ---- one bit ----

    def map_of(self, cover, state):
        if (cover, state) not in self.maps:
            n0, n1, _ = state
            self.maps[cover, state] = [round(2**22 * (n1 + 0.4) / (n0 + n1 + 0.8)), 0]
        return self.maps[cover, state]

    def row(self, which, number):
        """A row of one set of weights: two per cover, order zero likewise, the match, a constant."""
        if (which, number) not in self.weights:
            first, n = 5_120_000 * 17 // max(len(self.covers), 6), len(self.covers)
            self.weights[which, number] = [first, 0] * (n + 1) + [5_120_000, 0, 0]
        return self.weights[which, number]

    def predict(self, found, slots, node, bit):
        """P(1) out of 65536, and what is needed to learn the bit."""
        local = node if bit < 4 else (1 << (bit - 4)) | node % (1 << (bit - 4))
        states = {c: bucket[place][1].get(local, NEW) for c, (bucket, place) in slots.items()}
        states["zero"] = self.zero.get(node, NEW)
        x = []
        for cover in [*self.covers, "zero"]:
            p = self.map_of(cover, states[cover])[0] >> 6 if cover in states else 32768
            x += [stretch(p >> 4), (p - 32768) >> 5] if cover in states else [0, 0]
        expected, length = 0, 0
        if found[0] >= 0 and (found[0] | 256) >> (8 - bit) == node:
            expected, length = (found[0] >> (7 - bit)) & 1, found[1]
        sign = 2 * expected - 1 if length else 0
        x += [sign * stretch(min(self.hits[length] >> 10, 4095)), sign * length * 16, 256]
        c1, c2 = self.last % 256, (self.last >> 8) % 256
        met = sum(states[c] != NEW for c in self.covers[:6] if c in slots)  # the suffixes, where it has them
        rows = [
            self.row(0, node),
            self.row(1, c1),
            self.row(2, (length, expected) if length else 0),
            self.row(3, (bit, met, c1 >> 5, c2 >> 6)),
        ]
        odds = [clamp(sum(w * v for w, v in zip(row, x)) >> 25, 2047) for row in rows]
        final = self.finals.setdefault(node, [16384] * 4)
        odds_of_all = clamp(sum(f * o for f, o in zip(final, odds)) >> 16, 2800)
        tables = [
            self.refined.setdefault(name, [squash(clamp(i * 4096 // 15 - 2048, 2047)) for i in range(16)])
            for name in ((1, node, c1), (2, (mixed(node, self.last % 2**24) >> 20) % 2**14))
        ]
        place, part = divmod((clamp(odds_of_all, 2047) + 2048) * 15, 4096)
        refined = [(table[place] * (4096 - part) + table[place + 1] * part) >> 12 for table in tables]
        mixture = squash(odds_of_all)
        p = max(1, min(65535, (2 * mixture + sum(refined) + 2) >> 2))
        return p, (local, states, x, rows, odds, final, mixture, tables, place + (part >= 2048), expected, length)

    def learn_bit(self, notes, slots, node, y):
        local, states, x, rows, odds, final, mixture, tables, near, expected, length = notes
        rate = 24 + 96 * 4000 // (self.position + 4000)
        for row, o in zip(rows, odds):
            error = ((65536 * y - squash(o)) * rate + 4096) >> 13
            row[:] = [w + v * error for w, v in zip(row, x)]
        error = ((65536 * y - mixture) * 12) >> 10
        final[:] = [f + ((o * error + 8192) >> 14) for f, o in zip(final, odds)]
        for table in tables:
            table[near] += (65535 * y - table[near]) * 60 >> 10
        for cover, state in states.items():
            if state != NEW:
                entry = self.map_of(cover, state)
                entry[0] += ((y * (2**22 - 1) - entry[0]) * round(65536 / (entry[1] + 1.5))) >> 16
                entry[1] = min(entry[1] + 1, 1000)
            if cover == "zero":
                self.zero[node] = after(state, y)
            else:
                bucket, place = slots[cover]
                bucket[place][1][local] = after(state, y)
        if length:
            self.hits[length] += ((expected == y) * (2**22 - 1) - self.hits[length]) >> 6

    # ---- one symbol ----

    def open(self, numbers, half, learning):
        return {c: self.slot(numbers[c], half, learning) for c in self.covers if c not in self.asleep}

    def learn(self, symbol, extra=()):
        """-log p of the symbol, in nats, bit by bit; then it is known."""
        numbers, found, node, cost = self.hashes(extra), self.find_match(), 1, 0.0
        for bit in range(8):
            if bit % 4 == 0:
                slots = self.open(numbers, node, True)
            p, notes = self.predict(found, slots, node, bit)
            y = (symbol >> (7 - bit)) & 1
            cost -= math.log((p if y else 65536 - p) / 65536)
            if self.position % 16 == 0:
                x, row = notes[2], notes[3][0]
                for i in range(len(self.use)):
                    self.use[i] += abs(row[2 * i] * x[2 * i] + row[2 * i + 1] * x[2 * i + 1]) / 2**33
            self.learn_bit(notes, slots, node, y)
            node = 2 * node + y
        for which in range(2):
            if found[2][which] >= 0:
                self.places[which][found[2][which]] = self.position % len(self.ring) + 1
        self.ring[self.position % len(self.ring)] = symbol
        self.last = (self.last << 8 | symbol) & MASK
        letter = symbol + 32 if 65 <= symbol <= 90 else symbol
        if 97 <= letter <= 122 or letter >= 128:
            self.word = mixed(self.word, letter)
        elif self.word:
            self.previous, self.word = self.word, 0
        self.decay()
        self.position += 1
        self.document += 1
        return cost

    def decay(self):
        turns = [int(at * self.halvings * self.buckets) for at in (self.position, self.position + 1)]
        for turn in range(*turns):
            for slot in self.slots[turn % self.buckets]:
                if slot and slot[1].get(1, NEW) != NEW:
                    slot[1].update({node: halved(state) for node, state in slot[1].items()})
        if int((self.position + 1) * self.halvings) > int(self.position * self.halvings):
            self.zero = {node: halved(state) for node, state in self.zero.items()}

    def distribution(self, extra=()):
        """The probability of each of the 256 symbols; nothing is learned."""
        numbers, found, out = self.hashes(extra), self.find_match(), []
        for symbol in range(256):
            node, probability = 1, 1.0
            for bit in range(8):
                if bit % 4 == 0:
                    slots = self.open(numbers, node, False)
                p = self.predict(found, slots, node, bit)[0] / 65536
                y = (symbol >> (7 - bit)) & 1
                probability *= p if y else 1 - p
                node = 2 * node + y
            out.append(probability)
        return out
