#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes expressions.json: small templates, what they are given, and what the reference prints or that it fails."""
import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import reference

HERE = os.path.dirname(os.path.abspath(__file__))
VARIABLES = {
    "s": "Hello World",
    "u": "Ünïcödé ß ﬁ 日本 😀",
    "empty": "",
    "sp": "  padded \t\n",
    "lines": "one\ntwo\r\nthree\n",
    "n": 42,
    "neg": -7,
    "f": 2.5,
    "t": True,
    "no": False,
    "nil": None,
    "l": [3, 1, 2],
    "ls": ["b", "A", "c", "a"],
    "nested": [[1, 2], [3, [4]]],
    "d": {"b": 1, "a": {"x": [1, 2]}, "items": "key", "k e y": None},
    "users": [
        {"name": "bob", "age": 30, "admin": True, "tags": ["x"]},
        {"name": "Alice", "age": 25, "admin": False, "tags": []},
        {"name": "carol", "age": 30, "admin": True, "tags": ["y", "z"]},
    ],
    "messages": [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "U"},
        {"role": "assistant", "content": "A"},
    ],
}


# Expressions: each becomes "{{ ... }}".
EXPRESSIONS = r"""
1
1.5
1e3
1.5e-7
1e16
123456789.123
1e15
0.1 + 0.2
1/3
100.0
-0.0
'a' 'b' "c"
'it''s'
'tab\tnew\nline'
'\q\\'
"dq \" sq '"
true
True
none
None
false
[1, 2, 3]
[]
[1,]
()
(1,)
(1, 2)
1, 2
{}
{'a': 1, 'b': [1, 2]}
{'a': 'x', "q'": "it's", 'n': none, 't': true}
{'a': 1, 'a': 2}
['a\nb', 'it\'s', "say \"x\"", 'both \' "', '\x00\x1f\x7f\xa0é😀\u200b']
1 + 2 * 3
(1 + 2) * 3
7 // 2
-7 // 2
7 // -2
7 % 3
-7 % 3
7 % -3
7 / 2
6 / 3
1 / 0
1 // 0
1 % 0
1.0 / 0
true + true
true + 1.5
1 - 2 - 3
- - 1
-n
-s
'a' + 'b'
'a' + 1
1 + 'a'
[1] + [2]
(1,) + (2,)
[1] + (2,)
'ab' * 3
3 * 'ab'
'ab' * -1
'ab' * 1.5
'a' ~ 1 ~ none ~ true ~ 1.5 ~ [1, 'x']
1 ~ 2
'a' ~ missing ~ 'b'
n ~ '|' ~ f
'x' % 1
'x' % 'y'
'%(b)s'|format(d)
'%s' % (1, 2)
'%s %s' % 1
'%d' % 'x'
1 == 1
1 == 1.0
1 == true
'1' == 1
'a' == 'a'
[1, 2] == [1, 2]
[1] == (1,)
{'a': 1} == {'a': 1.0}
none == false
missing == missing2
missing == none
1 != 2
1 < 2
2 < 1
'a' < 'b'
'Z' < 'a'
'é' > 'z'
[1, 2] < [1, 3]
[1] < [1, 0]
1 < 'a'
none < 1
1.5 < 2
9223372036854775807
1 in [1, 2]
4 in [1, 2]
4 not in [1, 2]
'ell' in s
'x' not in s
'b' in d
'zz' in d
1 in s
1 in n
'a' in missing
[1] in nested
[1, 2] in nested
'' in ''
not true
not ''
not not 1
1 and 2
0 and 2
1 or 2
0 or ''
none or 'x'
missing or 'default'
not 1 == 2
1 if true else 2
1 if false else 2
1 if false
(1 if false) is defined
'a' if n > 40 else 'b' if n > 30 else 'c'
s[0]
s[-1]
s[100]
s[0:5]
s[6:]
s[:-6]
s[::-1]
s[-3:]
s[5:2]
s[:]
u[0]
u[-1]
u[2:5]
u[::-1]
u|length
l[0]
l[-1]
l[10]
l[1:]
l[::-1]
l[:2]
l[-2:]
l['a']
l[1.0]
l[true]
(1, 2, 3)[1:]
d.b
d['b']
d.a.x[1]
d.a['x'][0]
d['items']
d['k e y']
d.missing
d.missing.more
d['missing']['more']
missing
missing.x
missing[0]
missing()
n.x
n[0]
nil.x
nil[0]
nil.x.y
nested[1][1][0]
messages[0].role
messages[0]['content']
messages.0.role
messages[1:]|length
messages[-1]['role']
l[none]
l[0:'a']
s['upper']()
s.upper()
s.lower()
s.title()
s.capitalize()
s.swapcase()
u.lower()
u.capitalize()
u.swapcase()
'ǆ ǅ Ǆ'.title()
"they're bill's".title()
s.replace('o', '0')
s.replace('o', '0', 1)
s.replace('', '-')
s.replace('l', '')
'aaa'.replace('aa', 'b')
s.split()
s.split('o')
s.split('o', 1)
' a  b '.split()
' a  b '.split(' ')
' a  b  c '.split(none, 1)
'a,b,c'.rsplit(',', 1)
'a,b,c'.split(',', maxsplit=1)
'a,b,c'.rsplit(',')
''.split()
''.split(',')
'abc'.split('')
s.split('o')[0]
s.split('o')[-1]
lines.splitlines()
lines.splitlines(true)
'a\x0bb\x1cc\u2028d\x85e'.splitlines()
''.splitlines()
'\n'.splitlines()
sp.strip()
sp.lstrip()
sp.rstrip()
'xxhixx'.strip('x')
'xyhiyx'.strip('xy')
'\u00a0\u3000hi\u2003'.strip()
'hi'.strip(none)
'日本hi本'.strip('本日')
s.startswith('Hello')
s.startswith('World')
s.startswith(('x', 'He'))
s.endswith('World')
s.endswith(('a', 'd'))
s.startswith(1)
''.startswith('')
s.find('o')
s.find('zz')
s.rfind('o')
s.index('zz')
u.find('日')
u.rfind(' ')
s.count('o')
s.count('')
'aaaa'.count('aa')
', '.join(['a', 'b'])
', '.join([])
', '.join([1, 2])
''.join('abc')
'-'.join({'a': 1, 'b': 2})
s.isdigit()
'123'.isdigit()
''.isdigit()
'abc'.isalpha()
'日本'.isalpha()
'abc1'.isalnum()
' \t'.isspace()
'ABC'.isupper()
'AbC'.isupper()
'abc'.islower()
'abc1'.islower()
'1'.islower()
'Hello World'.istitle()
'Hello world'.istitle()
'a\tb'.expandtabs(4)
s.partition(' ')
s.partition('x')
s.removeprefix('Hello ')
s.removesuffix('World')
s.removeprefix('x')
'{} {}'.format('a', 1)
'{0} {1} {0}'.format('a', 'b')
'{a} {b}'.format(a=1, b='x')
'{{}} {}'.format(1)
'{}'.format(none)
'{}'.format([1, 'a'])
'{} {}'.format(1)
'{'.format(1)
'}'.format(1)
'{x}'.format(1)
l.index(9)
l.append(4)
l.pop()
l.append is defined
d.pop('b')
d.update({})
d.get('b')
d.get('zz')
d.get('zz', 'dflt')
d.keys()|list
d.values()|list
{'a': 1, 'b': 2}.items()|list
{'a': 1}.items()|length
{'a': 1}.keys()[0]
d.copy() == d
d.__class__
s.__class__
s|upper
s|lower
s|title
s|capitalize
"they're bill's (x-y)"|title
sp|trim
'xxhixx'|trim('x')
n|upper
s|length
l|length
d|length
n|length
nil|length
missing|length
s|count
s|replace('o', '0')
s|replace('o', '0', 1)
n|replace(4, 'x')
missing|default('x')
missing|default
missing|d('x')
empty|default('x')
empty|default('x', true)
nil|default('x')
nil|default('x', boolean=true)
d.zz|default(d.b)
missing.x|default('x')
l|join(', ')
ls|join
users|join(', ', attribute='name')
users|map(attribute='name')|join(',')
['a', 1, none, true]|join('-')
s|join('.')
l|first
l|last
[]|first
[]|last
s|first
s|last
d|first
l|list
s|list
d|list
(1, 2)|list
range(3)|list
missing|list
n|list
n|string
f|string
nil|string
l|string
'42'|int
'42.9'|int
'abc'|int
'abc'|int(7)
'-5'|int
' 12 '|int
f|int
-2.7|int
t|int
nil|int
missing|int
'3.5'|float
'abc'|float
'abc'|float(1.5)
n|float
'1e3'|float
nil|float
2.5|round
3.5|round
2.567|round(2)
42|round
-2.5|round
2.675|round(2)
0.5|round|int
'a'|round
neg|abs
-2.5|abs
'a'|abs
'hello world'|wordcount
"it's a test_x 日本"|wordcount
s|indent
lines|indent
lines|indent(2)
lines|indent(2, true)
'a\n\nb'|indent(2)
'a\n\nb'|indent(2, blank=true)
'a\nb'|indent('> ')
'a\nb'|indent(width=1, first=true)
n|indent
'<a href="x">&\'</a>'|e
'<b>'|escape
'<b>'|safe
l|sort
l|sort(reverse=true)
ls|sort
ls|sort(case_sensitive=true)
users|sort(attribute='age')|map(attribute='name')|list
users|sort(attribute='name')|map(attribute='name')|list
users|sort(reverse=true, attribute='age')|map(attribute='name')|list
[1, 'a']|sort
['é', 'z', 'É']|sort
l|reverse|list
s|reverse
d|reverse|list
l|min
l|max
[]|min
ls|min
ls|max
users|max(attribute='age')
users|min(attribute='name')
l|sum
[]|sum
users|sum(attribute='age')
ls|sum
ls|unique|list
[1, 1, 2]|unique|list
users|unique(attribute='age')|map(attribute='name')|list
ls|map('upper')|list
l|map('string')|join
users|map(attribute='zz', default='?')|list
users|map(attribute='tags.0', default='-')|list
ls|map('replace', 'a', 'x')|list
ls|map('nofilter')|list
l|select('odd')|list
l|select('gt', 1)|list
l|select|list
l|reject('odd')|list
[0, 1, '', 'a', none]|select|list
[0, 1, '', 'a', none]|reject|list
users|selectattr('admin')|map(attribute='name')|list
users|rejectattr('admin')|map(attribute='name')|list
users|selectattr('age', 'eq', 30)|map(attribute='name')|list
users|selectattr('age', '>', 26)|list|length
users|rejectattr('age', 'equalto', 30)|list|length
users|selectattr('name', 'in', ['bob', 'x'])|list|length
users|selectattr('zz', 'defined')|list
users|selectattr('zz')|list
users|selectattr('name', 'undefined')|list
users|selectattr('admin')|length
users|selectattr('admin')|first
users|selectattr('admin')|last
(users|selectattr('admin'))[0]
messages|selectattr('role', 'equalto', 'user')|list
messages|selectattr('role', 'ne', 'system')|map(attribute='content')|join('|')
missing|selectattr('x')|list
n|select|list
d|dictsort
{'b': 1, 'A': 2}|dictsort
{'b': 1, 'A': 2}|dictsort(true)
{'b': 1, 'A': 2}|dictsort(by='value')
{'b': 1, 'A': 2}|dictsort(reverse=true)
d|items|list
missing|items|list
d|tojson
l|tojson
s|tojson
u|tojson
u|tojson(ensure_ascii=true)
nil|tojson
t|tojson
f|tojson
1e20|tojson
1.0|tojson
'quote " back \\ nl \n tab \t ctl \x01 del \x7f </script>'|tojson
d|tojson(indent=2)
d|tojson(indent=0)
[]|tojson(indent=2)
{}|tojson(indent=2)
[[], {}]|tojson(indent=4)
{'b': 1, 'a': 2}|tojson(sort_keys=true)
{'b': 1, 'a': [1, 2]}|tojson(separators=(',', ':'))
l|tojson(indent='--')
{1: 2, none: 3, true: 4, 1.5: 5}|tojson
{(1, 2): 3}|tojson
missing|tojson
range(3)|tojson
(1, 2)|tojson
messages|tojson
users|tojson(indent=4, ensure_ascii=false)
s|truncate(8)
s|truncate(8, true)
s|truncate(8, false, '…', 0)
'foo bar baz qux'|truncate(9)
'foo bar baz qux'|truncate(11, false, '...', 0)
1000000|filesizeformat
1000000|filesizeformat(true)
1|filesizeformat
'a b/c?é'|urlencode
s|nofilter
n[1:]
t[::-1]
d[1:]
nil[:1]
1|truncate(5)
[none, none]|sort
[missing, missing]|sort|length
[none, 1]|sort
[1, 2]|truncate(3)
n|default(1)|string|length
l|last|string
s|upper|lower|title
s is defined
missing is defined
d.zz is defined
d.b is defined
missing is undefined
s is undefined
nil is none
s is none
missing is none
s is string
n is string
n is number
f is number
t is number
s is number
n is integer
t is integer
f is integer
f is float
n is float
t is boolean
n is boolean
t is true
no is false
n is true
1 is true
d is mapping
l is mapping
l is sequence
s is sequence
d is sequence
n is sequence
missing is sequence
l is iterable
n is iterable
missing is iterable
(l|map('string')) is iterable
(l|map('string')) is sequence
range(3) is sequence
3 is odd
3 is even
4 is even
0 is even
'a' is odd
10 is divisibleby 5
10 is divisibleby(3)
1 is eq 1
1 is equalto 2
1 is ne 2
2 is gt 1
2 is lt 1
2 is ge 2
2 is le 1
2 is greaterthan 1
1 is lessthan 2
1 is in [1, 2]
'a' is in 'abc'
5 is not in [1, 2]
'abc' is lower
'ABC' is upper
'Abc' is lower
none is sameas none
n is sameas 42
1 is sameas true
s is notest
s is not string
not s is string
s is string and n is number
s is defined and s
missing is not defined or missing.x
n is divisibleby 2 and n is even
range(5)|list
range(2, 5)|list
range(0, 10, 3)|list
range(5, 0, -2)|list
range(0)|list
range(3)[1]
range(5)|length
range(100001)
range(1, 2, 0)
range(3) == range(0, 3)
2 in range(3)
range('a')
dict(a=1, b='x')
dict({'a': 1}, b=2)
dict()
dict.fromkeys(['a', 'b'], 1)
dict.from_keys([('a', 1)])
'<' + ('<'|safe)
('<'|safe) + '>'
('<'|safe) ~ '>'
('<'|e) + '&'
'<'|safe|e
('<a'|safe)[1:] + '<'
namespace(a=1).a
namespace().zz
namespace({'a': 5}).a
strftime_now('%Y-%m-%d')
strftime_now('%d %b %Y')
strftime_now('%H:%M:%S %A %B %j %p %y %%')
strftime_now('%-d %e')
strftime_now('%z|%Z|%f')
strftime_now('')
strftime_now('é %Y')
raise_exception('own words: ' ~ n)
raise_exception()
unknown_function()
cycler('a', 'b').next()
cycler('a', 'b').current
joiner('|')() ~ 'x'
loop
loop.index
caller
s|upper()
l.sort()
[x for x in l]
{% %}
1 +
(1
l[
{'a'}
'abc
1 2
a b
x = 1
"a" if
s|
s is
s.
s..x
s.1
@
1 ! 2
a ? b : c
lambda x: x
s[1:2:3:4]
'ab'[5:]
'abc'[-100:2]
'abc'[1:-1]
'abc'[:100]
''[0]
''[1:]
9223372036854775807 - 1
-9223372036854775807
9223372036854775807 // 2
4611686018427387904 * -2
1.0 == 1
0.1
1e-5
0.0001
0.00001234
1e22
1.7976931348623157e308
5e-324
123456.789e3
3.0
1e100
-1.5
1.0e0
2.50
100000000000000000000.0
'a' < 1.5
true < 2
[1, [2, {'a': (1,)}]]
[none, true, missing]
{'x': missing}
((1, 2), [3])
[1.0, -0.5, 1e100]
'a' in ['a', 'b'] and 'c' not in 'ab'
(1, 2) == (1, 2)
(1, 'a') < (1, 'b')
{'a': 1} < {'a': 2}
none is none and not none
'x' * 0
s|default('x')|upper ~ '!'
(s ~ '!')|upper
s ~ '!'|upper
-1|abs
(-1)|abs
2 + 3|string
not s|length
l|length > 2
l|length == 3 and s|length == 11
'a' ~ 'b' == 'ab'
1 + 2 ~ 3
1 ~ 2 + 3
1 ~ 2 * 3
'a' 'b' ~ 'c'
s.split(' ')|map('first')|join
s.split(' ')|map('upper')|map('replace', 'O', '0')|join(' ')
messages|map(attribute='role')|unique|join(',')
(messages|first).role
(messages|last).content|lower
messages|length - 1
messages[messages|length - 1].role
messages[:-1]|map(attribute='content')|list
users[0].tags|length
users[0]['tags'][0]
users[1].tags[0]
users[1].tags|first|default('none')
d.a.x|sum
d.a.x|join('+')
('a', 'b')|join
d['a']|tojson
d.get('a').get('x')[0]
s.replace('World', 'X').upper().split(' ')
s.lower().replace('o', '').strip('h').title()
sp.strip().split()[0]
''|default('x', true)|upper
'a,b;c'.replace(';', ',').split(',')
'<think>a</think>b'.split('</think>')[-1].lstrip('\n')
'<think>a</think>b'.split('</think>')[0].split('<think>')[-1].strip('\n')
'<think>a</think>b'.rsplit('</think>', 1)[1]
'no think'.split('</think>')[-1]
"x" in "xyz" and "q" not in "xyz"
{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}|tojson
{"type": "function"}|tojson(indent=4)
[{"a": 1}, {"b": [1, 2, {"c": null}]}]|tojson(indent=2)
"a\u2028b"|tojson
"😀é"|tojson(ensure_ascii=true)
'\\n'
'a\\nb'
"\\"
'\''
'a' == "a"
1 if s is string and s|length > 5 else 0
(s, n)|first
(1, 2, 3)[::-1]
l + [4] | sort
(l + [4])|sort
*l
[*l]
'{}-{}'.format(*['a', 'b'])
s.split(*[' ', 1])
s.title().swapcase()
'ǆ'.capitalize()
'ÀÉ'.lower()
'STRASSE'.lower()
'éa'|capitalize
'1a b'|title
'a1b'.title()
'MiXeD cAsE'|lower
'a' is lower
'A1' is upper
'' is lower
[[1, 2], [3, 4]]|map('sum')|list
[[1, 2], [3, 4]]|map('first')|list
[[1, 2], [3]]|map('length')|sum
[1, 2, 3]|map('float')|list
['1', '2']|map('int')|sum
['a', 'b']|map('length')|list
[{'a': {'b': 1}}]|map(attribute='a.b')|list
[[1, 'x']]|map(attribute=1)|list
[[1, 'x']]|map(attribute='1')|list
[3, 1]|sort|first
'cba'|sort
'cba'|sort|join
{'b': 1, 'a': 2}|sort
{'b': 1}|list
'abc'|list|reverse|join
'a b c'.split()|length
'  a'.lstrip() ~ '|'
'a  '.rstrip() ~ '|'
"a\n" ~ "b"
n is number and n > 41
nil is defined
nil is not none
d['zz'] is undefined
d.zz == missing
not missing
missing|string|length
missing ~ ''
missing + 1
1 + missing
missing * 2
missing < 1
missing == 1
missing != 1
-missing
missing|upper
missing|trim
missing|join(',')
missing|first
missing|sum
missing|tojson(indent=2)
missing is string
missing in [1]
[missing]
missing[0:1]
missing.upper()
for
if
in
is
not
and
import
block
macro
_x
_x is defined
x_1 is defined
é is defined
"a" > "A"
"10" < "9"
1 == 1 and 2 == 2 or 3 == 4
true and not false
not (true and false)
'yes' if 'a' in 'abc' and not 'z' in 'abc' else 'no'
'a' if 0 else 'b' if 0 else 'c' if 1 else 'd'
[1 if true else 2, 3]
{'a': 1 if false else 2}
s[1 if true else 2]
(s if true else n).upper()
loop is defined
s.format()
'{:d}'.format(3.5)
'{:s}'.format(3)
'{:^7}'.format(none)
'{0}{}'.format(1, 2)
'%' % 1
'%q' % 1
s[8:2:-1]
s[-3::-1]
s[2:8:-1]
s[::1]
u[3::-1]
u[-2:0:-1]
l[2:0:-1]
l[9::-1]
l[:-4:-1]
(1, 2, 3)[1::-1]
range(5)[1:3]|list
range(5)[::-1]|list
range(3)|join(',')
range(3)[-1]
range(3) == range(2)
l == range(3)
'a{}b{{}}é{}'.format(1, none)
'{0}{0}'.format('ä')
'{a}{}{a}'.format(1, a=2)
'{}{1}'.format(1, 2)
'}}{{'.format()
'{2}'.format(1)
1.5e3|float
'1.5e3'|float
'-12.75'|int
' +7 '|int
'--1'|int
'1 2'|int
42|round(1)
t|round
2.5|round(0)
missing|round
1.5|int
d.get('a', 1).x|min
[none, 'a', none]|map('string')|sort|join
users|sort(attribute='zz')|map(attribute='name')|list
users|unique(attribute='tags.0')|map(attribute='name')|list
[true, 1, 1.0, 0, false]|unique|list
'a\b\f\\/"'|tojson
['\b\f\x7f', 'a"\'b', u]
(1, (2,), [3])|tojson
{'b': [1.5, none, true], 'a': {}}|tojson(indent=1, sort_keys=true)
1 < 2 and 2 < 3
not 1 in [2]
1 not in [2] and 2 in [2]
'a' 'b' 'c' == 'abc'
'aXbXc'.rsplit('X', 1)
'a b'.count(' ')
'日本日'.rfind('日')
'日本日'.find('x')
'Ab'.isalpha() and not 'a1'.isalpha()
'3'.isdigit() and not 'a'.isdigit() and '3a'.isalnum() and ' '.isspace()
u.upper()
u.title()
'ŉ ǰ'.upper()
'İI'.lower()
u|title
u|upper|lower
'ß'.upper()
'ﬁ'.upper()
'ﬁ'.capitalize()
'straße'|upper
""".strip("\n").split("\n")

# Whole templates.
TEMPLATES = [
    "plain text\n",
    "plain text\n\n",
    "a\r\nb\rc\n",
    "{{ s }}\n",
    "{{ s }}\n\n",
    "{%- if t %} x {%- endif %}\n",
    "  {% if t %}\n  yes\n  {% endif %}\nend",
    "  {%+ if t %}\n  yes\n  {%+ endif %}\nend",
    "a\n  {%- if t -%}\n  yes\n  {%- endif -%}\n  end",
    "a {% if t +%}\n b {% endif %}",
    "a  {{- s -}}  b",
    "a  {{ s }}  b",
    "\t{% set x = 1 %}\n{{ x }}",
    "x {# comment #} y",
    "x\n  {# comment #}\ny",
    "x\n  {#- comment -#}\n  y",
    "x {#+ comment +#}\n y",
    "{# open",
    "{#-#}",
    "{% raw %}open",
    "{{ '{{' }} }} %} #}",
    "{ {{ s }} }",
    "{{ {'a': {'b': 1}}['a']['b'] }}",
    "{{ {'a': 1} }}{{ {} }}",
    "{% if s %}A{% elif n %}B{% else %}C{% endif %}",
    "{% if no %}A{% elif n %}B{% else %}C{% endif %}",
    "{% if no %}A{% elif nil %}B{% else %}C{% endif %}",
    "{% if no %}A{% endif %}",
    "{% if a if b %}x{% endif %}",
    "{% if t: %}x{% endif %}",
    "{% if t %}",
    "{% endif %}",
    "{% if t %}{% endfor %}",
    "{% else %}",
    "{% for x in l %}{{ x }}{% endfor %}",
    "{% for x in l %}{{ x }},{% else %}none{% endfor %}",
    "{% for x in [] %}{{ x }},{% else %}none{% endfor %}",
    "{% for x in missing %}{{ x }},{% else %}none{% endfor %}",
    "{% for x in n %}{{ x }}{% endfor %}",
    "{% for x in nil %}{{ x }}{% endfor %}",
    "{% for x in s %}{{ x }}.{% endfor %}",
    "{% for x in u %}{{ x }}.{% endfor %}",
    "{% for k in d %}{{ k }},{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in d|items %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in d|dictsort %}{{ k }}={{ v }};{% endfor %}",
    "{% for a, b in [(1, 2), (3, 4)] %}{{ a }}-{{ b }};{% endfor %}",
    "{% for (a, b) in [(1, 2)] %}{{ a }}-{{ b }};{% endfor %}",
    "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for a, b in [1, 2] %}{{ a }}{% endfor %}",
    "{% for a, b in [(1, 2, 3)] %}{{ a }}{% endfor %}",
    "{% for a, b in ['xy', 'zw'] %}{{ b }}{{ a }}{% endfor %}",
    "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}"
    "{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }};{% endfor %}",
    "{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }};{% endfor %}",
    "{% for x in l %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }};{% endfor %}",
    "{% for x in l %}{{ loop.zz }}{% endfor %}",
    "{% for x in l if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }};{% endfor %}",
    "{% for x in l if x > 10 %}{{ x }}{% else %}none{% endfor %}",
    "{% for m in messages if m.role != 'system' %}{{ m.content }}{% if not loop.last %},{% endif %}{% endfor %}",
    "{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in l %}{% break %}{% else %}none{% endfor %}",
    "{% for x in l %}{% for y in l %}{% if y == 2 %}{% break %}{% endif %}{{ x }}{{ y }} {% endfor %}{% endfor %}",
    "{% break %}",
    "{% continue %}",
    "{% for x in range(3) %}{% for y in range(x) %}{{ loop.index }}{{ x }}{{ y }} {% endfor %}|{{ loop.index }}{% endfor %}",
    "{% for x in l %}{{ loop(l) }}{% endfor %}",
    "{% for x in l %}{% set y = x %}{% endfor %}{{ y }}",
    "{% set y = 0 %}{% for x in l %}{% set y = y + x %}{{ y }} {% endfor %}{{ y }}",
    "{% set ns = namespace(y=0) %}{% for x in l %}{% set ns.y = ns.y + x %}{% endfor %}{{ ns.y }}",
    "{% set ns = namespace() %}{% set ns.a = 1 %}{{ ns.a }}{{ ns.b }}",
    "{% set ns = namespace(a='x') %}{% set ns.a = ns.a ~ 'y' %}{{ ns.a }}",
    "{% set ns = {} %}{% set ns.a = 1 %}",
    "{% set zz.a = 1 %}",
    "{% set ns = namespace(l=[]) %}{% for x in l %}{% set ns.l = ns.l + [x * 2] %}{% endfor %}{{ ns.l }}",
    "{% for x in l %}{% if loop.first %}{% set a = 'f' %}{% endif %}{{ a }}{% endfor %}",
    "{% for i in [1, 2, 3] %}{% if i == 2 %}{{ x }}{% endif %}{% set x = i %}{% endfor %}",
    "{% for x in l %}{% endfor %}{{ x }}",
    "{% set x = 5 %}{% for x in l %}{% endfor %}{{ x }}",
    "{% for x in x %}{{ x }}{% endfor %}",
    "{% for l in l %}{{ l }}{% endfor %}{{ l }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% set a, b = [1, 2, 3] %}",
    "{% set (a, b) = (1, 2) %}{{ b }}{{ a }}",
    "{% set a = 1, 2 %}{{ a }}",
    "{% set a %}text {{ n }}{% endset %}[{{ a }}]",
    "{% set a | upper %}text {{ n }}{% endset %}[{{ a }}]",
    "{% set a | replace('t', 'x') | upper %}text{% endset %}[{{ a }}]",
    "{% set a %}{% set b = 1 %}{% endset %}{{ b }}",
    "{% set a = 1 %}{% if t %}{% set a = 2 %}{% endif %}{{ a }}",
    "{% if no %}{% set a = 2 %}{% endif %}{{ a }}{{ a is defined }}",
    "{% set true = 1 %}",
    "{% set 'a' = 1 %}",
    "{% set a.b.c = 1 %}",
    "{% set s = s ~ '!' %}{{ s }}",
    "{% set a = a %}{{ a is defined }}",
    "{% macro m(a, b=2) %}{{ a }}-{{ b }};{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(a=5, b=6) }}{{ m(b=1) }}",
    "{% macro m(a, b) %}{{ a is defined }}{{ b is defined }}{% endmacro %}{{ m(1) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, b=2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}",
    "{% macro m(a=1, b) %}{% endmacro %}",
    "{% macro m() %}{{ x }}{% endmacro %}{% set x = 1 %}{{ m() }}{% set x = 2 %}{{ m() }}",
    "{% macro m() %}{% set s = 'inner' %}{{ s }}{% endmacro %}{{ m() }}{{ s }}",
    "{% macro m(x) %}{% if x > 0 %}{{ x }}{{ m(x - 1) }}{% endif %}{% endmacro %}{{ m(3) }}",
    "{% macro a() %}A{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}",
    "{% macro m(a, b=a ~ '!') %}{{ b }}{% endmacro %}{{ m('x') }}",
    "{% macro m() %}  x  {% endmacro %}[{{ m()|trim }}]",
    "{% macro m() -%} x {%- endmacro %}[{{ m() }}]",
    "{{ m() }}{% macro m() %}x{% endmacro %}",
    "{% if t %}{% macro m() %}x{% endmacro %}{% endif %}{{ m() }}",
    "{% for i in l %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}",
    "{% macro m() %}x{% endmacro %}{% call m() %}in{% endcall %}",
    "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}",
    "{% macro m() %}{{ caller is defined }}{% if caller %}{{ caller() }}{% endif %}{% endmacro %}{{ m() }}",
    "{% call 1 %}x{% endcall %}",
    "{% filter upper %}abc {{ s }}{% endfilter %}",
    "{% filter replace('a', 'b')|upper %}abc{% endfilter %}",
    "{% filter trim %}  x  {% endfilter %}|",
    "{% filter nofilter %}x{% endfilter %}",
    "{% generation %}gen {{ n }}{% endgeneration %} after",
    "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}",
    "{% generation %}{% set q = 1 %}{% endgeneration %}{{ q }}",
    "{% include 'x' %}",
    "{% import 'x' as y %}",
    "{% extends 'x' %}",
    "{% unknown %}",
    "{% %}",
    "{% set %}",
    "{% for %}",
    "{% for x %}{% endfor %}",
    "{% for x in %}{% endfor %}",
    "{{ }}",
    "{{ s",
    "{{ 'abc }}",
    "{% if s",
    "{{ s }",
    "{{ s) }}",
    "{{ (s] }}",
    "{{ raise_exception('Only user and assistant roles are supported!') }}",
    "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}",
    "{% set l2 = l|map('string') %}{{ l2|join }}{{ l2|join }}",
    "{% set l2 = l|select('odd') %}{% for x in l2 %}{{ x }}{% endfor %}{% for x in l2 %}{{ x }}{% endfor %}",
    "{% if l|select('gt', 100) %}yes{% else %}no{% endif %}",
    "{% if l|select('gt', 100)|list %}yes{% else %}no{% endif %}",
    "{% for x in d.items()|reverse %}{{ x[0] }}{% endfor %}",
    "{% for x in l|reverse %}{{ x }}{{ loop.length }}{% endfor %}",
    "{% for x in l|sort %}{{ x }}{{ ', ' if not loop.last }}{% endfor %}",
    "{% for i in range(messages|length - 1, -1, -1) %}{{ messages[i].content }}{% endfor %}",
    "{% for m in messages[::-1] %}{{ loop.index0 }}{{ m.role }}{% endfor %}",
    "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.reset() }}{{ c.next() }}{{ c.current }}",
    "{% set j = joiner() %}{% for x in l %}{{ j() }}{{ x }}{% endfor %}",
    "{% set x = 1 %}{% set x %}{{ x }}2{% endset %}{{ x }}",
    "{% set f = s.upper %}{{ f() }}",
    "{% set f = 'x'.join %}{{ f(['a', 'b']) }}",
    "{%- set a = 1 -%}\n\n{{ a }}\n\n{%- set b = 2 -%}\n{{ b }}",
    "{%- for m in messages %}\n    {%- if m.role == 'user' %}\n        {{- '[INST] ' + m.content + ' [/INST]' }}\n"
    "    {%- else %}\n        {{- m.content }}\n    {%- endif %}\n{%- endfor %}\n",
    "{% for m in messages %}\n{% if m.role == 'user' %}\n<u>{{ m.content }}\n{% else %}\n<o>{{ m.content }}\n{% endif %}\n{% endfor %}\n",
    "line1\n    {{ s }}\n    {%- if t %}\n    x\n    {%- endif %}\n",
    "{{ s }}\n{% if t %}\nx\n{% endif %}\n",
    "{{ s -}}\n\n  x",
    "a\n\n{{- s }}",
    "{{ '\\n' }}x\n",
    "{{ 'a\nb' }}",
    "{{\n  s\n  |\n  upper\n}}",
    "{{ s | upper | lower }}{{s|upper}}{{s  |upper  }}",
    "{%for x in l%}{{x}}{%endfor%}",
    "{%-for x in l-%} {{x}} {%-endfor-%}",
    "{% for x in l -%}\n {{ x }} \n{%- endfor %}",
    "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | list | last }}",
    "{% set system = messages[0]['content'] if messages[0]['role'] == 'system' else '' %}{{ system }}",
    "{% set loop_messages = messages[1:] %}{{ loop_messages|length }}{% for m in loop_messages %}{{ m['content'] }}{% endfor %}",
    "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}o{% endif %}{% endfor %}",
    "{% for m in messages %}{% if loop.index0 == 0 and m.role == 'system' %}{{ m.content }}{% endif %}{% endfor %}",
    "{% set ns = namespace(found=false) %}{% for m in messages %}{% if m.role == 'user' and not ns.found %}"
    "{% set ns.found = true %}first{% endif %}{% endfor %}{{ ns.found }}",
    "{% set ns = namespace(i=0) %}{% for m in messages[::-1] %}{% set ns.i = (messages|length - 1) - loop.index0 %}"
    "{{ ns.i }}{% endfor %}",
    "{% if messages[0].content is string %}s{% endif %}{% if tools is not none %}{{ tools is defined }}{% endif %}",
    "{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{{ add_generation_prompt }}",
    "{% set add_generation_prompt = true if add_generation_prompt is not defined else add_generation_prompt %}{{ add_generation_prompt }}",
    "{% if enable_thinking is defined and enable_thinking is false %}x{% else %}y{% endif %}",
    "{% macro render(x, depth=0) %}{% if x is mapping %}{% for k, v in x|dictsort %}{{ '  ' * depth }}{{ k }}:\n"
    "{{ render(v, depth + 1) }}{% endfor %}{% elif x is iterable and x is not string %}{% for i in x %}"
    "{{ render(i, depth + 1) }}{% endfor %}{% else %}{{ '  ' * depth }}{{ x }}\n{% endif %}{% endmacro %}{{ render(d) }}",
    "{% set items = [] %}{% for x in l %}{% set _ = items.append(x) %}{% endfor %}{{ items }}",
    "{% set x = {'a': 1} %}{% set _ = x.update({'b': 2}) %}{{ x }}",
    "{% do l.append(1) %}",
    "{{ [1, 2, 3][0] }}{{ {'a': 1}.a }}{{ 'abc'[1] }}{{ (1, 2)[0] }}",
    "{{ s.split(' ')[0] }}{{ (s.split(' '))[1] }}{{ s.upper()[0:2] }}",
    "{{ d['a']['x'][0] + d.a.x[1] * 2 }}",
    "{% set x = [[1, 2], [3, 4]] %}{{ x[0][1] }}{% for a, b in x %}{{ a + b }} {% endfor %}",
    "{{ loop is defined }}{% for x in [1] %}{{ loop is defined }}{% endfor %}{{ loop is defined }}",
    "{% set loop = 5 %}{{ loop }}",
    "{% print s %}",
    "{% print s, n %}",
    "{% print %}",
    "{% for x in l %}{% continue %}{% else %}none{% endfor %}",
    "{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% else %}none{% endfor %}",
    "{% for x in (1, 2) %}{{ x }}{% endfor %}{% for x in 1, 2 %}{{ x }}{% endfor %}",
    "{% for x in [1, 2, 3] if x is odd recursive %}{{ x }}{% endfor %}",
    "{% if s == 'Hello World' and (n == 42 or nil) and not no %}ok{% endif %}",
    "{% if 'a' in {'a': 1} and 'b' not in {'a': 1} %}ok{% endif %}",
    "{{ 'x' if s is not none and s|length }}",
    "{{ s|replace('o', '') if s else '' }}",
    "{{ messages|tojson|length }}{{ messages|tojson is string }}",
    "{{ n }}{{ f }}{{ t }}{{ nil }}{{ l }}{{ d }}",
    "{{ u }}{{ [u] }}",
    "{{ '\u00e9' }}é{{ 'é'|length }}{{ '日本'[1] }}",
    "{% set é = 1 %}{{ é }}",
    "{{ 'a' ~ ('b' if true) ~ ('c' if false) }}",
    "{% macro m(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ m(*[1, 3]) }}{{ m(*[5], b=6) }}{{ m(*[]) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(*[1, 2]) }}",
    "{% set a %}x{% set b %}y{{ n }}{% endset %}{{ b }}{% filter upper %}z{{ b }}{% endfilter %}{% endset %}{{ a }}{{ b }}",
    "{% for x in l %}{% set a | trim %} {{ x }}{{ loop.index }} {% endset %}[{{ a }}]{% endfor %}",
    "{% for x in l %}{% filter trim %}{% for y in l %}{% if y == 1 %}{% break %}{% endif %}{{ y }} {% endfor %}{% endfilter %}{% endfor %}",
    "{% for i in range(3) %}{{ i }}{{ loop.depth }}{{ loop.depth0 }}{{ loop.revindex }};{% endfor %}",
    "{% for k in {'a': 1, 'b': 2}.keys() %}{{ k }}{{ loop.last }}{% endfor %}{% for v in d.values() %}{{ v }}{% endfor %}",
    "{% if 1 < n and n < 100 %}a{% endif %}{% if not n in [1] %}b{% endif %}{% if n not in l %}c{% endif %}",
]


# What Jinja and Python have and chat templates do not get: expressions with one of these fail.
REFUSED = re.compile(
    r"\|\s*(filesizeformat|truncate|urlencode|wordcount)\b|\b(cycler|joiner)\(|\.(expandtabs|istitle|swapcase|from_?keys)\("
    r"|{%-? print\b"
)


def main():
    cases = []
    for text in EXPRESSIONS:
        cases.append("{{ " + text + " }}")
    cases += TEMPLATES
    out = []
    for template in cases:
        got = reference.render(template, VARIABLES)
        got.pop("error", None)
        if REFUSED.search(template):
            got = {}
        if " at 0x" in got.get("out", ""):
            raise SystemExit(f"{template}: prints an address")
        out.append({"template": template, **got})
    path = os.path.join(HERE, "expressions.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write('{"variables": ' + json.dumps(VARIABLES, ensure_ascii=False) + ',\n"cases": [\n')
        file.write(",\n".join(json.dumps(case, ensure_ascii=False) for case in out))
        file.write("\n]}\n")
    print(f"{path}: {len(out)} cases, {sum('out' in case for case in out)} that print")


if __name__ == "__main__":
    main()
